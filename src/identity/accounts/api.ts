import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/access.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Created } from "../../kernel/location.ts"
import { cursor, page, PageLimit } from "../../kernel/page.ts"
import { integerParameter } from "../../kernel/parameter.ts"
import { TenantNotFound } from "../tenants/domain.ts"
import { TrialUserNotFound } from "../trial-users/domain.ts"
import {
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
const position = cursor(AccountId)

export class AccountsApi extends HttpApiGroup.make("accounts")
  .add(
    HttpApiEndpoint.get("list", "/", {
      query: {
        tenantId: Schema.optionalKey(TenantId),
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        cursor: Schema.optionalKey(position)
      },
      success: page(AccountView, position)
    })
      .annotateMerge(read)
      .annotateMerge(
        OpenApi.annotations({
          summary: "List accounts",
          description: "A tenant's caller sees the accounts of its tenant, a system caller all of them."
        })
      ),
    HttpApiEndpoint.get("get", "/:id", { params: { id: AccountId }, success: AccountView, error: AccountNotFound })
      .annotateMerge(read)
      .annotateMerge(OpenApi.annotations({ summary: "Get an account", description: "One account by id." })),
    HttpApiEndpoint.post("create", "/", {
      payload: AccountCreation,
      success: Created(AccountView),
      error: [TenantNotFound, TrialUserNotFound, AccountEmailTaken]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Make an account",
          description:
            "For somebody who signs in. The caller needs every capability of the roles that it gives. Without `tenantId` the account belongs to the caller's tenant; a system caller makes one of the whole installation."
        })
      ),
    HttpApiEndpoint.patch("update", "/:id", {
      params: { id: AccountId },
      payload: AccountPatch,
      success: AccountView,
      error: [AccountNotFound, TrialUserNotFound, AccountEmailTaken, AccountIsCaller]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Change an account",
          description:
            "Any subset of the members. The caller needs every capability that the account has before and after. A change of roles, password or trial user, and a suspension, end the account's sessions."
        })
      ),
    HttpApiEndpoint.delete("delete", "/:id", {
      params: { id: AccountId },
      success: HttpApiSchema.NoContent,
      error: [AccountNotFound, AccountIsCaller]
    })
      .annotateMerge(write)
      .annotateMerge(
        OpenApi.annotations({
          summary: "Delete an account",
          description: "Ends its sessions. The caller needs every capability that the account has."
        })
      )
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/accounts")
  .annotateMerge(
    OpenApi.annotations({
      title: "Accounts",
      description: "Whoever signs in: operators of the installation or of one tenant."
    })
  ) {}
