import { Context, DateTime, Effect, Layer, Option } from "effect"
import { Change } from "../../audit/log/domain.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { type AccountId } from "./domain.ts"
import { InvitationRepository } from "./invitation-repository.ts"
import { AccountsRepository, toResponse } from "./repository.ts"

/** What sign-in needs of accounts; password hashes stay within identity. */
export class SignInAccounts extends Context.Service<SignInAccounts>()("app/people/SignInAccounts", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const invitations = yield* InvitationRepository
    const repository = yield* AccountsRepository

    const hold = Effect.fnUntraced(function* (id: AccountId, passwordHash: string | null | undefined) {
      yield* Change
      const account = yield* Effect.option(repository.lock(id))
      const now = yield* DateTime.now
      return Option.filter(
        account,
        ({ expiresAt, ...found }) =>
          (passwordHash === undefined || found.passwordHash === passwordHash) &&
          found.status === "active" &&
          (expiresAt === null || DateTime.isGreaterThan(expiresAt, now))
      )
    })

    return {
      /** The accounts of an e-mail address, of one tenant or of any, whatever their status. */
      candidates: repository.candidates,
      /** The hash of the password, of an account that the caller may see. */
      passwordHash: Effect.fn("SignInAccounts.passwordHash")(function* (id: AccountId) {
        const principal = yield* CurrentPrincipal
        return (yield* database.read(scopeOf(principal), repository.get(id))).passwordHash
      }),
      /**
       * Notes a sign-in and holds the account meanwhile; none when the status, or the password that was judged, is another one.
       * Undefined where no password was.
       */
      admit: Effect.fn("SignInAccounts.admit")(function* (id: AccountId, passwordHash: string | null | undefined) {
        const held = yield* hold(id, passwordHash)
        if (Option.isNone(held)) return Option.none()
        const after = { ...held.value, lastSignInAt: yield* DateTime.now }
        yield* repository.touch(after)
        return Option.some(toResponse(after))
      }),
      /** Puts another password in the place of one; none when that one is no longer there. */
      replacePassword: Effect.fn("SignInAccounts.replacePassword")(function* (
        id: AccountId,
        from: string | null,
        to: string
      ) {
        const held = yield* hold(id, from)
        if (Option.isNone(held)) return Option.none()
        yield* Effect.orDie(repository.update({ ...held.value, passwordHash: to }))
        return Option.some(toResponse(held.value))
      }),
      /** The account that a live link invites. */
      invited: Effect.fn("SignInAccounts.invited")(function* (sha256: Uint8Array) {
        const found = yield* database.read("all", invitations.find(sha256, yield* DateTime.now))
        return Option.map(found, ({ accountId }) => accountId)
      }),
      /** Consumes the link of an account; false when it was no longer the live one. */
      useInvitation: Effect.fn("SignInAccounts.useInvitation")(function* (id: AccountId, sha256: Uint8Array) {
        return yield* invitations.use(id, sha256, yield* DateTime.now)
      }),
      /** Ends the link of an account whose owner has a new password. */
      endInvitation: invitations.end,
      /** Whether the installation has an account. */
      exist: database.read("all", repository.exists)
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(AccountsRepository.layer, InvitationRepository.layer))
  )
}
