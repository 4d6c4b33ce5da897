import { Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { generatedId, Uuid } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"

export const RegistrationTokenId = Uuid.pipe(Schema.brand("RegistrationTokenId"))
export type RegistrationTokenId = typeof RegistrationTokenId.Type

/** How they are listed. */
export const registrationTokenListing = listing(RegistrationTokenId, { createdAt: "id" }, { searches: "who made it" })

const Uses = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 10_000 }))).annotate({
  description: "How many applications may register with it",
  examples: [1]
})
const RemainingUses = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 10_000 }))).annotate({
  examples: [1]
})

/** A token with which applications register, stored as its SHA-256. */
export class RegistrationToken extends Model.Class<RegistrationToken>("RegistrationToken")({
  id: generatedId(RegistrationTokenId),
  tokenSha256: Model.Field({ select: Schema.Uint8Array, insert: Schema.Uint8Array }),
  uses: Uses.pipe(Model.FieldExcept(["update", "jsonUpdate"])),
  remainingUses: RemainingUses,
  expiresAt: Model.Field({ select: InstantFromDate, insert: InstantFromDate, json: Instant }),
  createdAt: CreatedAt,
  createdBy: Schema.String.pipe(Model.FieldExcept(["update", "jsonCreate", "jsonUpdate"]))
}) {}

const view = {
  id: RegistrationTokenId,
  uses: Uses,
  remainingUses: RemainingUses.annotate({ description: "How many of its uses are left" }),
  expiresAt: Instant,
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] })
}

/** A registration token as the API shows it. */
export const RegistrationTokenView = Schema.Struct(view).annotate({ identifier: "RegistrationToken" })
export type RegistrationTokenView = typeof RegistrationTokenView.Type

/** A registration token just made: the one answer that holds the token itself. */
export const NewRegistrationToken = Schema.Struct({
  ...view,
  token: Schema.RedactedFromValue(
    Schema.String.annotate({
      description: "The token, shown this once",
      examples: ["ami_4mXo1ExampleOfATokenThatNobodyHasAnywhere0000"]
    })
  )
}).annotate({ identifier: "NewRegistrationToken" })

const year = 31_536_000

export const RegistrationTokenCreation = Schema.Struct({
  uses: Schema.optionalKey(Uses),
  expiresInSeconds: Schema.optionalKey(
    Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: year }))).annotate({
      description: "86,400 when absent; the token ends with the caller's own authority at the latest",
      examples: [86_400]
    })
  )
}).annotate({ identifier: "RegistrationTokenCreation" })
export type RegistrationTokenCreation = typeof RegistrationTokenCreation.Type

export const registrationTokenActions = auditActions("RegistrationToken", [
  "RegistrationTokenCreated",
  "RegistrationTokenUsed",
  "RegistrationTokenDeleted"
])

export class RegistrationTokenNotFound extends Problem<RegistrationTokenNotFound>()("RegistrationTokenNotFound", {
  slug: "registration-token-not-found",
  status: 404,
  meaning: "No registration token has this id."
}) {}
