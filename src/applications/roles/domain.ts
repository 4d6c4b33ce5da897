import { Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { capabilitiesOf, Capability, resources } from "../../kernel/authority/capability.ts"
import { listing } from "../../kernel/http/listing.ts"
import { optionalAtCreation, serverSet } from "../../kernel/http/server-set.ts"
import { generatedId, IntegerId } from "../../kernel/identifier.ts"
import { HiddenCreatedAt, HiddenUpdatedAt } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { composed, name, text } from "../../kernel/text.ts"
import { ApplicationId } from "../applications/domain.ts"

export const RoleId = IntegerId.pipe(Schema.brand("RoleId"))
export type RoleId = typeof RoleId.Type

/** How they are listed. */
export const roleListing = listing(
  RoleId,
  { createdAt: "id", name: "text" },
  { searches: "the name and the description", isArray: true }
)

const RoleName = name(100, { examples: ["Support"] })
const Description = composed(text(0, 1000), { examples: ["Looks after trial users"] })

/** At most 200 capabilities, as applications define them; the order is kept and repetitions are dropped. */
export const RoleCapabilities = Schema.Array(Capability)
  .pipe(Schema.check(Schema.isMaxLength(200)))
  .annotate({ examples: [["trial-users:read", "sessions:*"]] })

/** A named list of capabilities within one application. */
export class Role extends Model.Class<Role>("Role")({
  id: generatedId(RoleId),
  name: RoleName,
  description: optionalAtCreation(Description),
  applicationId: ApplicationId.pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  capabilities: RoleCapabilities,
  builtIn: Model.Field({ select: Schema.Boolean, insert: Schema.Boolean }),
  createdAt: HiddenCreatedAt,
  updatedAt: HiddenUpdatedAt
}) {}

/** Any subset of what may be changed; a role stays with its application. */
export const RolePatch = Schema.Struct({
  name: Schema.optionalKey(RoleName),
  description: Schema.optionalKey(Description),
  capabilities: Schema.optionalKey(RoleCapabilities),
  ...serverSet("id", "applicationId")
}).annotate({ identifier: "RolePatch" })
export type RolePatch = typeof RolePatch.Type

/** Resources whose capabilities let a holder extend its own or others' access. */
const authorities: ReadonlySet<string> = new Set(["tenants", "accounts", "api-keys", "roles"])

/** The roles that the application `application-manager` has from the first start. */
export const builtInRoles: ReadonlyArray<Pick<Role, "name" | "description" | "capabilities">> = [
  { name: "Administrator", description: "May do everything.", capabilities: ["*:*"] },
  {
    name: "Operator",
    description: "May do everything but manage tenants, accounts, API keys and roles.",
    capabilities: resources.filter((resource) => !authorities.has(resource)).flatMap(capabilitiesOf)
  },
  { name: "Viewer", description: "May look at everything.", capabilities: ["*:read"] }
]

export const roleActions = auditActions("Role", ["RoleCreated", "RoleUpdated", "RoleDeleted"])

export class RoleNotFound extends Problem<RoleNotFound>()("RoleNotFound", {
  slug: "role-not-found",
  status: 404,
  meaning: "No role has this id."
}) {}

export class RoleNameTaken extends Problem<RoleNameTaken>()("RoleNameTaken", {
  slug: "role-name-taken",
  status: 409,
  meaning: "Another role of the application has this name."
}) {}

export class RoleBuiltIn extends Problem<RoleBuiltIn>()("RoleBuiltIn", {
  slug: "role-built-in",
  status: 409,
  meaning: "A built-in role is neither changed nor deleted."
}) {}

export class RoleInUse extends Problem<RoleInUse>()("RoleInUse", {
  slug: "role-in-use",
  status: 409,
  meaning: "An account has the role; take it from every account first."
}) {}
