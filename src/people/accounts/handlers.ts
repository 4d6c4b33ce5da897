import { Effect } from "effect"
import { created } from "../../kernel/http/location.ts"
import { groupHandlers } from "../../platform/http/served-api.ts"
import { AccountsApi } from "./api.ts"
import { AccountInvitations } from "./invitations.ts"
import { Accounts } from "./service.ts"

export const AccountsHandlers = groupHandlers(
  AccountsApi,
  Effect.fn(function* (handlers) {
    const accounts = yield* Accounts
    const invitations = yield* AccountInvitations
    return handlers.handleAll({
      list: ({ query: { tenantId, ...page } }) => accounts.list({ tenantId }, page),
      get: ({ params }) => accounts.get(params.id),
      create: ({ payload }) => Effect.map(accounts.create(payload), created("/api/accounts")),
      update: ({ params, payload }) => accounts.update(params.id, payload),
      delete: ({ params }) => accounts.delete(params.id),
      assignableRoles: () => accounts.assignableRoles(),
      invite: ({ payload }) => Effect.map(invitations.invite(payload), created("/api/accounts")),
      renewInvitation: ({ params, payload }) => invitations.renew(params.id, payload.ttlSeconds),
      revokeInvitation: ({ params }) => invitations.revoke(params.id)
    })
  })
)
