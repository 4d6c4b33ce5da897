import { Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { optionalAtCreation, serverSet } from "../../kernel/http/server-set.ts"
import { generatedId, IntegerId } from "../../kernel/identifier.ts"
import { CreatedAt, UpdatedAt } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { Slug, composed, name, text } from "../../kernel/text.ts"

export const ApplicationId = IntegerId.pipe(Schema.brand("ApplicationId"))
export type ApplicationId = typeof ApplicationId.Type

/** How they are listed. */
export const applicationListing = listing(
  ApplicationId,
  { createdAt: "moment", name: "text" },
  { searches: "the name and the slug" }
)

const ApplicationName = name(100, { examples: ["Billing portal"] })
const Description = composed(text(0, 1000), { examples: ["Where customers see and pay their bills"] })

export const ApplicationStatus = Schema.Literals(["active", "pending", "rejected", "suspended"]).annotate({
  examples: ["active"]
})
export type ApplicationStatus = typeof ApplicationStatus.Type

/** An application that is managed here: it has roles and configuration of its own. */
export class Application extends Model.Class<Application>("Application")({
  id: generatedId(ApplicationId),
  name: ApplicationName,
  slug: optionalAtCreation(Slug),
  description: optionalAtCreation(Description),
  status: ApplicationStatus.pipe(Model.FieldExcept(["jsonCreate"])),
  builtIn: Model.Field({ select: Schema.Boolean, insert: Schema.Boolean }),
  createdAt: CreatedAt,
  updatedAt: UpdatedAt
}) {}

/** Any subset of what may be changed. */
export const ApplicationPatch = Schema.Struct({
  name: Schema.optionalKey(ApplicationName),
  slug: Schema.optionalKey(Slug),
  description: Schema.optionalKey(Description),
  status: Schema.optionalKey(ApplicationStatus),
  ...serverSet("id", "createdAt", "updatedAt")
}).annotate({ identifier: "ApplicationPatch" })
export type ApplicationPatch = typeof ApplicationPatch.Type

/** The application whose roles are authorities in this service. */
export const applicationManagerSlug = "application-manager"

/** The applications that every installation has from its first start. */
export const builtInApplications = [
  {
    name: "Application Manager",
    slug: applicationManagerSlug,
    description: "This service itself; its roles give accounts their capabilities."
  },
  {
    name: "LLM gateway",
    slug: "llm-gateway",
    description: "Carries completion and embedding traffic to the configured providers."
  }
]

export const applicationActions = auditActions("Application", [
  "ApplicationCreated",
  "ApplicationUpdated",
  "ApplicationDeleted"
])

export class ApplicationNotFound extends Problem<ApplicationNotFound>()("ApplicationNotFound", {
  slug: "application-not-found",
  status: 404,
  meaning: "No application has this id."
}) {}

export class ApplicationSlugTaken extends Problem<ApplicationSlugTaken>()("ApplicationSlugTaken", {
  slug: "application-slug-taken",
  status: 409,
  meaning: "Another application has this slug."
}) {}

export class ApplicationInUse extends Problem<ApplicationInUse>()("ApplicationInUse", {
  slug: "application-in-use",
  status: 409,
  meaning: "Roles, API keys or configuration still belong to the application."
}) {}

export class ApplicationBuiltIn extends Problem<ApplicationBuiltIn>()("ApplicationBuiltIn", {
  slug: "application-built-in",
  status: 409,
  meaning: "A built-in application keeps its slug and its status, and is never deleted."
}) {}
