import { Context, Effect, Layer } from "effect"
import { Audit } from "../../audit/log/service.ts"
import { accountActions, type AccountId, type AccountInvitation, type AccountView } from "./domain.ts"
import { InvitationRepository } from "./invitation-repository.ts"
import { OneTimeLinks } from "./one-time-links.ts"
import { Accounts } from "./service.ts"

const weekSeconds = 604_800

/** Invitations: links by which people choose the passwords of accounts that operators make for them. */
export class AccountInvitations extends Context.Service<AccountInvitations>()("app/people/AccountInvitations", {
  make: Effect.gen(function* () {
    const accounts = yield* Accounts
    const audit = yield* Audit
    const links = yield* OneTimeLinks
    const repository = yield* InvitationRepository

    const linkTo = Effect.fnUntraced(function* (account: AccountView, ttlSeconds = weekSeconds) {
      const { expiresAt, link, sha256 } = yield* links.make("amv", ttlSeconds)
      const { id: accountId, tenantId } = account
      yield* repository.put({ accountId, tenantId, tokenSha256: sha256, expiresAt })
      return {
        value: { ...account, invitationExpiresAt: expiresAt, link },
        entries: [{ action: accountActions.AccountInvited, entityId: accountId, tenantId }]
      }
    })

    return {
      /** Makes an account without a password, and the link by which its owner chooses one. */
      invite: Effect.fn("AccountInvitations.invite")(function* ({ ttlSeconds, ...input }: AccountInvitation) {
        return yield* linkTo(yield* accounts.createInvited(input), ttlSeconds)
      }, audit.change),
      /** A new link in the place of the account's earlier one, also for a person who has lost the password. */
      renew: Effect.fn("AccountInvitations.renew")(function* (id: AccountId, ttlSeconds: number | undefined) {
        return yield* linkTo(yield* accounts.takeToInvite(id), ttlSeconds)
      }, audit.change),
      revoke: Effect.fn("AccountInvitations.revoke")(function* (id: AccountId) {
        const { tenantId } = yield* accounts.take(id)
        const isEnded = yield* repository.end(id)
        const entry = { action: accountActions.AccountInvitationRevoked, entityId: id, tenantId }
        return { value: undefined, entries: isEnded ? [entry] : [] }
      }, audit.change)
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(InvitationRepository.layer, OneTimeLinks.layer))
  )
}
