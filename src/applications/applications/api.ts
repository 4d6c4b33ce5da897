import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { page } from "../../kernel/http/page.ts"
import { integerParameter } from "../../kernel/http/parameter.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
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
const applications = crudEndpoints("an application", {
  read,
  write,
  id: integerParameter(ApplicationId),
  view: Application.json,
  notFound: ApplicationNotFound
})

export class ApplicationsApi extends HttpApiGroup.make("applications")
  .add(
    applications.list({
      description: "In the order of their ids.",
      query: applicationListing.query({ status: Schema.optionalKey(ApplicationStatus) }),
      success: page(Application.json, applicationListing.position)
    }),
    applications.get({ description: "One application by id." }),
    applications.create({
      description: "Active at once. Without a slug, one is derived from the name, with a number if it is taken.",
      payload: Application.jsonCreate,
      error: [ApplicationSlugTaken]
    }),
    applications.update({
      description: "Any subset of the members. A built-in application keeps its slug and its status.",
      payload: ApplicationPatch,
      error: [ApplicationSlugTaken, ApplicationBuiltIn]
    }),
    applications.delete({
      description: "Only when no role, API key or configuration belongs to it any more; never a built-in one.",
      error: [ApplicationInUse, ApplicationBuiltIn]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/applications")
  .annotateMerge(
    OpenApi.annotations({ title: "Applications", description: "Each has its own roles and configuration." })
  ) {}
