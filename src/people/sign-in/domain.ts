import { Schema } from "effect"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Capability } from "../../kernel/authority/capability.ts"
import { Email } from "../../kernel/email.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { described, text } from "../../kernel/text.ts"
import { AccountName, AccountView, GivenPassword, NewPassword } from "../accounts/domain.ts"

export const AccountSessionId = Uuid.pipe(Schema.brand("AccountSessionId"))
export type AccountSessionId = typeof AccountSessionId.Type

/** Sign-in credentials; the address is not validated, so that every wrong one gets the same answer. */
export const Login = Schema.Struct({
  email: text(1, 254).annotate({ examples: ["ada@example.com"] }),
  password: GivenPassword,
  tenantId: Schema.optionalKey(
    described(TenantId, { description: "Where accounts of several tenants have the same address and password" })
  )
}).annotate({ identifier: "Login" })
export type Login = typeof Login.Type

/** A sign-in that succeeded: the token, which is in this answer and in the cookie only. */
export const SignedIn = Schema.Struct({
  token: Schema.RedactedFromValue(
    Schema.String.annotate({
      description: "For the header Authorization: Bearer; browsers use the cookie",
      examples: ["amt_4mXo1ExampleOfATokenThatNobodyHasAnywhere0000"]
    })
  ),
  tokenType: Schema.Literal("Session"),
  expiresAt: Instant.annotate({
    description: "When it ends if it is not used or refreshed before: after the idle time, or at the end of its life"
  }),
  account: AccountView
}).annotate({ identifier: "SignedIn" })
export type SignedIn = typeof SignedIn.Type

export const PasswordChange = Schema.Struct({ currentPassword: GivenPassword, newPassword: NewPassword }).annotate({
  identifier: "PasswordChange"
})
export type PasswordChange = typeof PasswordChange.Type

/** The first operator, by the link that the start printed. */
export const Claim = Schema.Struct({
  token: Schema.RedactedFromValue(
    text(1, 200).annotate({
      description: "From the link that the start printed",
      examples: ["amc_4mXo1ExampleOfATokenThatNobodyHasAnywhere0000"]
    })
  ),
  email: Email,
  name: AccountName,
  password: NewPassword
}).annotate({ identifier: "Claim" })
export type Claim = typeof Claim.Type

/** The password of an account, chosen by the link of its invitation. */
export const InvitationAccepted = Schema.Struct({
  token: Schema.RedactedFromValue(
    text(1, 200).annotate({
      description: "What follows # in the link",
      examples: ["amv_4mXo1ExampleOfATokenThatNobodyHasAnywhere0000"]
    })
  ),
  password: NewPassword
}).annotate({ identifier: "InvitationAccepted" })
export type InvitationAccepted = typeof InvitationAccepted.Type

/** What anyone may know of an installation. */
export const Installation = Schema.Struct({
  claimed: Schema.Boolean.annotate({
    description: "Whether it has an account; until then a claim link makes the first"
  })
}).annotate({ identifier: "Installation" })

/** One sign-in of the caller's. */
export const AccountSession = Schema.Struct({
  id: AccountSessionId,
  createdAt: Instant,
  lastUsedAt: Instant,
  expiresAt: Instant.annotate({ description: "The end of its life, however much it is used" }),
  ipAddress: Schema.NullOr(Schema.String).annotate({ examples: ["203.0.113.7"] }),
  userAgent: Schema.NullOr(Schema.String).annotate({ examples: ["Mozilla/5.0"] }),
  isCurrent: Schema.Boolean.annotate({ description: "Whether the request came with it" })
}).annotate({ identifier: "AccountSession" })
export type AccountSession = typeof AccountSession.Type

/** Who the caller is, and what it may do. */
export const Me = Schema.Struct({
  principal: Schema.String.annotate({ examples: ["account:0198a5b0-7c00-7000-8000-00000000002a"] }),
  kind: Schema.String.annotate({ examples: ["account"] }),
  capabilities: Schema.Array(Capability),
  synthetic: Schema.Boolean.annotate({
    description: "Whether it is a synthetic principal, or an agent that one registered"
  }),
  tenant: Schema.NullOr(Schema.Struct({ id: TenantId, name: Schema.String, slug: Schema.String })).annotate({
    description: "null for a caller of the whole installation"
  }),
  account: Schema.NullOr(AccountView).annotate({ description: "null for a caller that did not sign in" })
}).annotate({ identifier: "Me" })
export type Me = typeof Me.Type

export const signInActions = auditActions("SignIn", [
  "SignedIn",
  "SignInRefused",
  "SignInRefreshed",
  "SignedOut",
  "SignInTokenReused"
])

export const claimActions = auditActions("Installation", ["ClaimLinkMade", "InstallationClaimed", "ClaimRefused"])

export class AccountSessionNotFound extends Problem<AccountSessionNotFound>()("AccountSessionNotFound", {
  slug: "account-session-not-found",
  status: 404,
  meaning: "The caller's account has no sign-in with this id."
}) {}

export class ClaimInvalid extends Problem<ClaimInvalid>()("ClaimInvalid", {
  slug: "claim-invalid",
  status: 403,
  meaning:
    "The link was used, is older than half an hour, or the installation has an account; a restart prints a new one while it has none."
}) {}

export class InvitationInvalid extends Problem<InvitationInvalid>()("InvitationInvalid", {
  slug: "invitation-invalid",
  status: 403,
  meaning:
    "The link was used or revoked, another one took its place, it is too old, or the account or its tenant is suspended. Ask for another link."
}) {}

export class CurrentPasswordWrong extends Problem<CurrentPasswordWrong>()("CurrentPasswordWrong", {
  slug: "current-password-wrong",
  status: 403,
  meaning: "The current password is another one; nothing was changed."
}) {}
