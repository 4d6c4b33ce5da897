import { Schema } from "effect"
import { RoleId } from "../../applications/roles/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Email } from "../../kernel/email.ts"
import { listing } from "../../kernel/http/listing.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { IntegerId, TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { name, text } from "../../kernel/text.ts"
import { TrialUserId } from "../../trials/users/domain.ts"

export const AccountId = Uuid.pipe(Schema.brand("AccountId"))
export type AccountId = typeof AccountId.Type

/** How they are listed. */
export const accountListing = listing(
  AccountId,
  { createdAt: "moment", name: "text", lastSignInAt: "use" },
  { searches: "the name and the e-mail address" }
)

export const AccountName = name(100, { examples: ["Ada Lovelace"] })

/** A suspended account signs in nowhere, and its sessions end. */
export const AccountStatus = Schema.Literals(["active", "suspended"]).annotate({ examples: ["active"] })
export type AccountStatus = typeof AccountStatus.Type

/** A new password: 12 to 128 characters; common ones are refused as well. */
export const NewPassword = Schema.RedactedFromValue(
  text(12, 128).annotate({
    component: "NewPassword",
    description: "12 to 128 characters, and no common password",
    examples: ["seven grey herons at dawn"]
  })
)

/** A password presented at sign-in; its form is not validated, so that every wrong one gets the same answer. */
export const GivenPassword = Schema.RedactedFromValue(
  text(1, 1000).annotate({ examples: ["seven grey herons at dawn"] })
)

const RoleIds = Schema.Array(RoleId)
  .pipe(Schema.check(Schema.isMaxLength(50), Schema.isUnique()))
  .annotate({
    component: "RoleIds",
    description: "Roles of the application `application-manager`",
    examples: [[RoleId.make(1)]]
  })

/** A role of this service as who gives it sees it. */
export const AssignableRole = Schema.Struct({
  id: RoleId,
  name: Schema.String.annotate({ examples: ["Viewer"] }),
  description: Schema.String.annotate({ examples: ["May look at everything."] })
}).annotate({ identifier: "AssignableRole" })
export type AssignableRole = typeof AssignableRole.Type

/** A person who signs in to run the installation or a tenant, as the API returns it. */
export const AccountView = Schema.Struct({
  id: AccountId,
  email: Email,
  name: AccountName,
  tenantId: Schema.NullOr(TenantId).annotate({ description: "null for an account of the whole installation" }),
  roleIds: RoleIds,
  roleNames: Schema.Array(Schema.String).annotate({
    description: "The names of `roleIds`, in their order",
    examples: [["Administrator"]]
  }),
  trialUserId: Schema.NullOr(TrialUserId).annotate({
    description: "The trial user whose session opens at sign-in and ends at sign-out",
    examples: [null]
  }),
  applicationId: Schema.NullOr(IntegerId).annotate({
    description: "The application of the credential that created it",
    examples: [null]
  }),
  status: AccountStatus,
  expiresAt: Schema.NullOr(Instant).annotate({
    description: "When it ends, with the credential that created it",
    examples: [null]
  }),
  createdAt: Instant,
  createdBy: Schema.String.annotate({ examples: ["service-account"] }),
  lastSignInAt: Schema.NullOr(Instant),
  invitationExpiresAt: Schema.optionalKey(Instant).annotate({
    description: "Until when a link lets its owner choose the password; absent where there is none, or it was used"
  })
}).annotate({ identifier: "Account" })
export type AccountView = typeof AccountView.Type

export const AccountCreation = Schema.Struct({
  email: Email,
  name: AccountName,
  password: NewPassword,
  roleIds: RoleIds,
  tenantId: Schema.optionalKey(Schema.NullOr(TenantId)),
  trialUserId: Schema.optionalKey(Schema.NullOr(TrialUserId))
}).annotate({ identifier: "AccountCreation" })
export type AccountCreation = typeof AccountCreation.Type

const InvitationTtl = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 300, maximum: 2_592_000 }))).annotate({
  description: "How long the link works; 604,800, a week, when absent",
  examples: [604_800]
})

/** An account whose owner chooses the password. */
export const AccountInvitation = Schema.Struct({
  email: Email,
  name: AccountName,
  roleIds: RoleIds,
  tenantId: Schema.optionalKey(Schema.NullOr(TenantId)),
  trialUserId: Schema.optionalKey(Schema.NullOr(TrialUserId)),
  ttlSeconds: Schema.optionalKey(InvitationTtl)
}).annotate({ identifier: "AccountInvitation" })
export type AccountInvitation = typeof AccountInvitation.Type

export const InvitationRenewal = Schema.Struct({ ttlSeconds: Schema.optionalKey(InvitationTtl) }).annotate({
  identifier: "InvitationRenewal"
})

/** An account with a new link: the one answer that holds the link. */
export const InvitedAccount = Schema.Struct({
  ...AccountView.fields,
  link: Schema.RedactedFromValue(
    Schema.String.annotate({
      description: "Where its owner chooses the password, shown this once",
      examples: ["https://manager.example.com/console/invitation#amv_4mXo1ExampleOfATokenThatNobodyHasAnywhere0000"]
    })
  )
}).annotate({ identifier: "InvitedAccount" })

/** Any subset of what may be changed; an account stays with its tenant. */
export const AccountPatch = Schema.Struct({
  email: Schema.optionalKey(Email),
  name: Schema.optionalKey(AccountName),
  password: Schema.optionalKey(NewPassword),
  roleIds: Schema.optionalKey(RoleIds),
  trialUserId: Schema.optionalKey(Schema.NullOr(TrialUserId)),
  status: Schema.optionalKey(AccountStatus),
  ...serverSet(
    "id",
    "tenantId",
    "applicationId",
    "expiresAt",
    "createdAt",
    "createdBy",
    "lastSignInAt",
    "invitationExpiresAt",
    "roleNames"
  )
}).annotate({ identifier: "AccountPatch" })
export type AccountPatch = typeof AccountPatch.Type

export const accountActions = auditActions("Account", [
  "AccountCreated",
  "AccountUpdated",
  "AccountDeleted",
  "AccountPasswordChanged",
  "AccountInvited",
  "AccountInvitationRevoked",
  "AccountInvitationAccepted",
  "AccountInvitationRefused"
])

export class AccountNotFound extends Problem<AccountNotFound>()("AccountNotFound", {
  slug: "account-not-found",
  status: 404,
  meaning: "No account that the caller may see has this id."
}) {}

export class AccountEmailTaken extends Problem<AccountEmailTaken>()("AccountEmailTaken", {
  slug: "account-email-taken",
  status: 409,
  meaning: "Another account of the tenant has this e-mail address; addresses are compared without regard to case."
}) {}

export class AccountIsCaller extends Problem<AccountIsCaller>()("AccountIsCaller", {
  slug: "account-is-caller",
  status: 409,
  meaning: "An account cannot suspend, delete or invite itself; change its password at /api/auth/password."
}) {}
