import { DateTime, Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { generatedId, IntegerId } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { name, text } from "../../kernel/text.ts"

export const TrialUserId = IntegerId.pipe(Schema.brand("TrialUserId"))
export type TrialUserId = typeof TrialUserId.Type

/** How they are listed. */
export const trialUserListing = listing(
  TrialUserId,
  { createdAt: "moment", email: "text", lastName: "text", trialEndDate: "moment" },
  { searches: "the names, the e-mail address and the organization", isArray: true }
)

/** An address as HTML's e-mail field takes it, with a dotted domain; unique without regard to case, kept as typed. */
export const Email = text(3, 254)
  .pipe(
    Schema.check(
      Schema.isPattern(
        /^[\p{L}\p{N}.!#$%&'*+/=?^_`{|}~-]{1,64}@(?:[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?\.)+[\p{L}\p{N}](?:[\p{L}\p{N}-]{0,61}[\p{L}\p{N}])?$/u,
        { expected: "a valid e-mail address" }
      )
    )
  )
  .annotate({ component: "Email", examples: ["ada@example.com"] })

const Moment = Model.Field({ select: InstantFromDate, insert: InstantFromDate, update: InstantFromDate, json: Instant })
const FirstName = name(100).annotate({ examples: ["Ada"] })
const LastName = name(100).annotate({ examples: ["Lovelace"] })
const Organization = text(0, 200).annotate({ examples: ["Analytical Engines Ltd"] })

/** A person invited to a trial. The organization is stored and never returned. */
export class TrialUser extends Model.Class<TrialUser>("TrialUser")({
  id: generatedId(TrialUserId),
  firstName: FirstName,
  lastName: LastName,
  email: Email,
  organization: Model.Field({
    select: Schema.NullOr(Organization),
    insert: Schema.NullOr(Organization),
    jsonCreate: Schema.optionalKey(Organization)
  }),
  isActive: Schema.Boolean.pipe(Model.FieldExcept(["jsonCreate"])),
  emailVerified: Schema.Boolean.pipe(Model.FieldExcept(["jsonCreate"])),
  trialStartDate: Moment,
  trialEndDate: Moment,
  createdAt: CreatedAt
}) {
  /** Whether sessions may be opened: active, and the trial not over. */
  isOpen(now: DateTime.Utc): boolean {
    return this.isActive && DateTime.isLessThan(now, this.trialEndDate)
  }
}

/** Any subset of what may be changed. */
export const TrialUserPatch = Schema.Struct({
  firstName: Schema.optionalKey(FirstName),
  lastName: Schema.optionalKey(LastName),
  email: Schema.optionalKey(Email),
  isActive: Schema.optionalKey(Schema.Boolean),
  emailVerified: Schema.optionalKey(Schema.Boolean),
  trialStartDate: Schema.optionalKey(Instant),
  trialEndDate: Schema.optionalKey(Instant),
  ...serverSet("id", "createdAt")
}).annotate({ identifier: "TrialUserPatch" })
export type TrialUserPatch = typeof TrialUserPatch.Type

export const trialUserActions = auditActions("TrialUser", ["UserCreated", "UserUpdated", "UserDeleted"])

export class TrialUserNotFound extends Problem<TrialUserNotFound>()("TrialUserNotFound", {
  slug: "trial-user-not-found",
  status: 404,
  meaning: "No trial user has this id or e-mail address."
}) {}

export class EmailTaken extends Problem<EmailTaken>()("EmailTaken", {
  slug: "email-already-registered",
  status: 409,
  meaning: "Another trial user has this e-mail address; addresses are compared without regard to case."
}) {}

export class TrialEndsBeforeStart extends Problem<TrialEndsBeforeStart>()("TrialEndsBeforeStart", {
  slug: "trial-ends-before-start",
  status: 400,
  meaning: "The trial would end before it starts."
}) {}
