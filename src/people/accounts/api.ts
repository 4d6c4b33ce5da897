import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { crudEndpoints } from "../../kernel/http/crud-endpoints.ts"
import { page } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { TrialUserNotFound } from "../../trials/users/domain.ts"
import {
  accountListing,
  AccountCreation,
  AccountEmailTaken,
  AccountId,
  AccountIsCaller,
  AccountNotFound,
  AccountPatch,
  AccountView
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
