import { DateTime, Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Email } from "../../kernel/email.ts"
import { listing } from "../../kernel/http/listing.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { generatedId, IntegerId } from "../../kernel/identifier.ts"
import { CreatedAt, Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { composed, name, text } from "../../kernel/text.ts"

export const TrialUserId = IntegerId.pipe(Schema.brand("TrialUserId"))
export type TrialUserId = typeof TrialUserId.Type

/** How they are listed. */
export const trialUserListing = listing(
  TrialUserId,
  { createdAt: "moment", email: "text", lastName: "text", trialEndDate: "moment" },
  { searches: "the names, the e-mail address and the organization", isArray: true }
)

const Moment = Model.Field({ select: InstantFromDate, insert: InstantFromDate, update: InstantFromDate, json: Instant })
const FirstName = name(100, { examples: ["Ada"] })
const LastName = name(100, { examples: ["Lovelace"] })
const Organization = composed(text(0, 200), { examples: ["Analytical Engines Ltd"] })

/** A person invited to a trial. The organization is stored and never returned. */
export class TrialUser extends Model.Class<TrialUser>("TrialUser")({
  id: generatedId(TrialUserId),
  firstName: FirstName,
  lastName: LastName,
  email: Email,
  /** What the address is compared by. */
  emailKey: Model.Field({ select: Schema.String, insert: Schema.String, update: Schema.String }),
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
