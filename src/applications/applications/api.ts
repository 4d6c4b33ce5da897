import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { integerParameter } from "../../kernel/http/parameter.ts"
import {
  applicationListing,
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

export class ApplicationsApi extends HttpApiGroup.make("applications")
  .add(
    endpoint.get("list", "/", {
      summary: "List applications",
      description: "In the order of their ids.",
      access: read,
      query: applicationListing.query({ status: Schema.optionalKey(ApplicationStatus) }),
      success: page(Application.json, applicationListing.position)
    }),
    endpoint.get("get", "/:id", {
      summary: "Get an application",
      description: "One application by id.",
      access: read,
      params: { id: integerParameter(ApplicationId) },
      success: Application.json,
      error: ApplicationNotFound
    }),
    endpoint.post("create", "/", {
      summary: "Create an application",
      description: "Active at once. Without a slug, one is derived from the name, with a number if it is taken.",
      access: write,
      payload: Application.jsonCreate,
      success: Created(Application.json),
      error: ApplicationSlugTaken
    }),
    endpoint.patch("update", "/:id", {
      summary: "Change an application",
      description: "Any subset of the members. A built-in application keeps its slug and its status.",
      access: write,
      params: { id: integerParameter(ApplicationId) },
      payload: ApplicationPatch,
      success: Application.json,
      error: [ApplicationNotFound, ApplicationSlugTaken, ApplicationBuiltIn]
    }),
    endpoint.delete("delete", "/:id", {
      summary: "Delete an application",
      description: "Only when no role, API key or configuration belongs to it any more; never a built-in one.",
      access: write,
      params: { id: integerParameter(ApplicationId) },
      error: [ApplicationNotFound, ApplicationInUse, ApplicationBuiltIn]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/applications")
  .annotateMerge(
    OpenApi.annotations({ title: "Applications", description: "Each has its own roles and configuration." })
  ) {}
