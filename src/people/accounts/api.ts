import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { Created } from "../../kernel/http/location.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { OneTimeSecrets } from "../../platform/idempotency/domain.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { TrialUserNotFound } from "../../trials/users/domain.ts"
import {
  accountListing,
  AccountCreation,
  AccountEmailTaken,
  AccountId,
  AccountInvitation,
  AccountIsCaller,
  AccountNotFound,
  AccountPatch,
  AccountView,
  AssignableRole,
  InvitationRenewal,
  InvitedAccount
} from "./domain.ts"

const read = requires("accounts:read")
const write = requires("accounts:write")
const accounts = crudEndpoints("an account", {
  read,
  write,
  id: AccountId,
  view: AccountView,
  notFound: AccountNotFound
})

export class AccountsApi extends HttpApiGroup.make("accounts")
  .add(
    accounts.list({
      description: "A tenant's caller sees the accounts of its tenant, a system caller all of them.",
      query: accountListing.query({ tenantId: Schema.optionalKey(TenantId) }),
      success: page(AccountView, accountListing.position)
    }),
    accounts.get({ description: "One account by id." }),
    accounts.create({
      summary: "Make an account",
      description:
        "An account is a person who signs in. The caller needs every capability of the roles that it grants. Without `tenantId` the account belongs to the caller's tenant; a system caller creates an account of the whole installation.",
      payload: AccountCreation,
      error: [TenantNotFound, TrialUserNotFound, AccountEmailTaken]
    }),
    accounts.update({
      description:
        "Any subset of the members. The caller needs every capability that the account has before and after. A change of roles, password or trial user, and a suspension, end the account's sessions.",
      payload: AccountPatch,
      error: [TrialUserNotFound, AccountEmailTaken, AccountIsCaller]
    }),
    accounts.delete({
      description: "Ends its sessions. The caller needs every capability that the account has.",
      error: [AccountIsCaller]
    }),
    endpoint.get("assignableRoles", "/roles", {
      summary: "List the roles that the caller may give",
      description: "The roles of `application-manager` whose capabilities the caller has, for `roleIds`.",
      access: write,
      success: Schema.Array(AssignableRole)
    }),
    endpoint
      .post("invite", "/invitations", {
        summary: "Invite a person",
        description:
          "Makes an account without a password, and a link by which its owner chooses one; `link` is in this response only, and you send it. It works once. The rules are those of making an account.",
        access: write,
        payload: AccountInvitation,
        success: Created(InvitedAccount),
        error: [TenantNotFound, TrialUserNotFound, AccountEmailTaken]
      })
      .annotate(OneTimeSecrets, ["link"]),
    endpoint
      .post("renewInvitation", "/:id/invitation", {
        summary: "Make a new link for an account",
        description:
          "For an invitation that was lost or has expired, and for a person who has lost the password. An earlier link ends. Until the new one is used the password and the sessions of the account stay. The caller needs every capability that the account has.",
        access: write,
        params: { id: AccountId },
        payload: InvitationRenewal,
        success: InvitedAccount,
        error: [AccountNotFound, AccountIsCaller]
      })
      .annotate(OneTimeSecrets, ["link"]),
    endpoint.delete("revokeInvitation", "/:id/invitation", {
      summary: "Revoke an invitation",
      description: "Ends the link of an account. Repeating it is 204.",
      access: write,
      params: { id: AccountId },
      error: AccountNotFound
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/accounts")
  .annotateMerge(
    OpenApi.annotations({
      title: "Accounts",
      description: "People who sign in: operators of the installation or of one tenant."
    })
  ) {}
