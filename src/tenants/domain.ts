import { Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../kernel/authority/audit-action.ts"
import { listing } from "../kernel/http/listing.ts"
import { optionalAtCreation, serverSet } from "../kernel/http/server-set.ts"
import { generatedId, TenantId } from "../kernel/identifier.ts"
import { CreatedAt, HiddenUpdatedAt } from "../kernel/instant.ts"
import { expectedExactIntegers, hasInexactInteger } from "../kernel/json/parsed-json.ts"
import { isStorableJson } from "../kernel/json/storable-json.ts"
import { Problem } from "../kernel/problems/problem.ts"
import { name, Slug } from "../kernel/text.ts"

const TenantName = name(100, { examples: ["Acme Research"] })
const TenantSlug = Slug.annotate({ examples: ["acme-research"] })

/** No caller of a suspended tenant is authenticated. */
export const TenantStatus = Schema.Literals(["active", "suspended"]).annotate({ examples: ["active"] })
export type TenantStatus = typeof TenantStatus.Type

/** How they are listed. */
export const tenantListing = listing(
  TenantId,
  { createdAt: "moment", name: "text" },
  { searches: "the name and the slug" }
)

const maxDepth = 32
const maxCharacters = 16_384

/** Settings of a tenant that applications read: a JSON object of at most 16,384 characters, 32 levels deep. */
export const TenantSettings = Schema.JsonObject.pipe(
  Schema.check(
    Schema.makeFilter(
      (settings) => isStorableJson(settings, maxDepth) && JSON.stringify(settings).length <= maxCharacters,
      {
        expected: "a JSON object of at most 16,384 characters and 32 levels, without NUL and without lone surrogates",
        toJsonSchema: () => ({})
      }
    )
  )
).annotate({ examples: [{ locale: "en" }] })
/** What may be given; what is kept may be of a time when such numbers were taken. */
const GivenSettings = TenantSettings.pipe(
  Schema.check(
    Schema.makeFilter((settings) => !hasInexactInteger(settings), {
      expected: expectedExactIntegers,
      toJsonSchema: () => ({})
    })
  )
).annotate({ examples: [{ locale: "en" }] })
const StoredSettings = Schema.fromJsonString(TenantSettings)

/** A customer of the installation: agents, accounts, keys and money belong to one. */
export class Tenant extends Model.Class<Tenant>("Tenant")({
  id: generatedId(TenantId),
  name: TenantName,
  slug: optionalAtCreation(TenantSlug),
  status: TenantStatus.pipe(Model.FieldExcept(["jsonCreate"])),
  settings: Model.Field({
    select: TenantSettings,
    insert: StoredSettings,
    update: StoredSettings,
    json: TenantSettings,
    jsonCreate: Schema.optionalKey(GivenSettings)
  }),
  createdAt: CreatedAt,
  updatedAt: HiddenUpdatedAt
}) {
  /** Whether it is the default tenant, which every installation has. */
  isDefault(): boolean {
    return this.slug === "default"
  }
}

/** Any subset of what may be changed; settings are replaced as a whole. */
export const TenantPatch = Schema.Struct({
  name: Schema.optionalKey(TenantName),
  slug: Schema.optionalKey(TenantSlug),
  status: Schema.optionalKey(TenantStatus),
  settings: Schema.optionalKey(GivenSettings),
  ...serverSet("id", "createdAt")
}).annotate({ identifier: "TenantPatch" })
export type TenantPatch = typeof TenantPatch.Type

export const tenantActions = auditActions("Tenant", ["TenantCreated", "TenantUpdated"])

export class TenantNotFound extends Problem<TenantNotFound>()("TenantNotFound", {
  slug: "tenant-not-found",
  status: 404,
  meaning: "No tenant has this id."
}) {}

export class TenantSlugTaken extends Problem<TenantSlugTaken>()("TenantSlugTaken", {
  slug: "tenant-slug-taken",
  status: 409,
  meaning: "Another tenant has this slug."
}) {}

export class TenantIsDefault extends Problem<TenantIsDefault>()("TenantIsDefault", {
  slug: "tenant-default",
  status: 409,
  meaning: "The default tenant can neither be suspended nor get another slug."
}) {}
