import { Schema } from "effect"
import { Result } from "effect"
import { NetAddress } from "effect/net"
import { Model } from "effect/schema"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { listing } from "../../kernel/http/listing.ts"
import { generatedId, IntegerId } from "../../kernel/identifier.ts"
import { Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { TrialUserId } from "../users/domain.ts"

export const SessionId = IntegerId.pipe(Schema.brand("SessionId"))
export type SessionId = typeof SessionId.Type

/** How they are listed. */
export const sessionListing = listing(SessionId, { startedAt: "id" }, { searches: "the address", isArray: true })

/** An IPv4 or IPv6 address, kept as typed. */
export const IpAddress = Schema.String.pipe(
  Schema.check(
    Schema.isMaxLength(45),
    Schema.makeFilter((text: string) => Result.isSuccess(NetAddress.ipFromString(text)), {
      expected: "an IPv4 or IPv6 address",
      toJsonSchema: () => ({
        anyOf: [
          { type: "string", format: "ipv4" },
          { type: "string", format: "ipv6" }
        ]
      })
    })
  )
).annotate({ examples: ["203.0.113.7"] })

const Moment = Model.Field({ select: InstantFromDate, insert: InstantFromDate, update: InstantFromDate, json: Instant })

/** A trial user's stay: active until it is ended, or idle for longer than `Sessions:IdleTimeoutSeconds`. */
export class Session extends Model.Class<Session>("Session")({
  id: generatedId(SessionId),
  trialUserId: TrialUserId,
  ipAddress: IpAddress,
  startedAt: Moment,
  lastActivityAt: Moment,
  isActive: Schema.Boolean.pipe(Model.FieldExcept(["jsonCreate"])),
  /** Whether it is the sign-in of an account, which ends with it. */
  isSignIn: Model.Field({ select: Schema.Boolean, insert: Schema.Boolean })
}) {}

export const NewSession = Schema.Struct({ trialUserId: TrialUserId, ipAddress: IpAddress }).annotate({
  identifier: "NewSession"
})
export type NewSession = typeof NewSession.Type

export const sessionActions = auditActions("Session", ["SessionStarted", "SessionEnded", "SessionExpired"])

export class SessionNotFound extends Problem<SessionNotFound>()("SessionNotFound", {
  slug: "session-not-found",
  status: 404,
  meaning: "No session has this id."
}) {}

export class TrialUserInactive extends Problem<TrialUserInactive>()("TrialUserInactive", {
  slug: "trial-user-inactive",
  status: 409,
  meaning: "The trial user is not active, or the trial is over, so no session is opened."
}) {}

export class SessionInactive extends Problem<SessionInactive>()("SessionInactive", {
  slug: "session-inactive",
  status: 409,
  meaning: "The session has ended; activity does not revive it."
}) {}
