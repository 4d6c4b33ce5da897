import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { Created } from "../../kernel/location.ts"
import { cursor, page, PageLimit } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import {
  Application,
  ApplicationBuiltIn,
  ApplicationId,
  ApplicationInUse,
  ApplicationNotFound,
  ApplicationPatch,
  ApplicationSlugTaken,
  ApplicationStatus
} from "./domain.ts"

const read = requires("applications:read", { systemOnly: true })
const write = requires("applications:write", { systemOnly: true })
const position = cursor(ApplicationId)

export class ApplicationsApi extends HttpApiGroup.make("applications")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        status: Schema.optionalKey(ApplicationStatus),
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        cursor: Schema.optionalKey(position)
      },
      success: page(Application.json, position)
    })
      .annotateMerge(read)
      .annotateMerge(OpenApi.annotations({ summary: "List applications", description: "In the order of their ids." })),
    HttpApiEndpoint.get("get", "/:id", {
      params: { id: integerParameter(ApplicationId) },
      success: Application.json,
      error: ApplicationNotFound
    })
      .annotateMerge(read)
      .annotateMerge(OpenApi.annotations({ summary: "Get an application", description: "One application by id." })),
    HttpApiEndpoint.post("create", "/", {
      payload: Application.jsonCreate,
      success: Created(Application.json),
      error: ApplicationSlugTaken
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Create an application",
          description: "Active at once. Without a slug one is made from the name, with a number when that one is taken."
        })
      ),
    HttpApiEndpoint.patch("update", "/:id", {
      params: { id: integerParameter(ApplicationId) },
      payload: ApplicationPatch,
      success: Application.json,
      error: [ApplicationNotFound, ApplicationSlugTaken, ApplicationBuiltIn]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Change an application",
          description: "Any subset of the members. A built-in application keeps its slug and its status."
        })
      ),
    HttpApiEndpoint.delete("delete", "/:id", {
      params: { id: integerParameter(ApplicationId) },
      success: HttpApiSchema.NoContent,
      error: [ApplicationNotFound, ApplicationInUse, ApplicationBuiltIn]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Delete an application",
          description: "Only when no role, API key or configuration belongs to it any more; never a built-in one."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/applications")
  .annotateMerge(
    OpenApi.annotations({ title: "Applications", description: "What has roles and configuration of its own." })
  ) {}
