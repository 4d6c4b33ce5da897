import { Context, DateTime, Effect, Layer, Option } from "effect"
import { Change } from "../../audit/log/domain.ts"
import { CurrentPrincipal } from "../../kernel/principal.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { type AccountId, type AccountNotFound, type AccountView } from "./domain.ts"
import { AccountsRepository, type SignInCandidate, toResponse } from "./repository.ts"

/** What sign-in needs of accounts; password hashes stay within identity. */
export class AccountCredentials extends Context.Service<
  AccountCredentials,
  {
    /** The account of an e-mail address, whatever its tenant and status. */
    candidate(email: string): Effect.Effect<Option.Option<SignInCandidate>>
    /** The hash of the password, of an account that the caller may see. */
    passwordHash(id: AccountId): Effect.Effect<string, AccountNotFound>
    /** Notes a sign-in and holds the account meanwhile; none when the password or the status is no longer what was judged. */
    admit(id: AccountId, passwordHash: string): Effect.Effect<Option.Option<AccountView>, never, Change>
    /** Puts another password in the place of one; none when that one is no longer there. */
    replacePassword(id: AccountId, from: string, to: string): Effect.Effect<Option.Option<AccountView>, never, Change>
    /** Whether the installation has an account. */
    readonly exist: Effect.Effect<boolean>
  }
>()("app/accounts/AccountCredentials") {
  static readonly layerNoDeps = Layer.effect(
    AccountCredentials,
    Effect.gen(function* () {
      const database = yield* Database
      const repository = yield* AccountsRepository

      const hold = Effect.fnUntraced(function* (id: AccountId, passwordHash: string) {
        yield* Change
        const account = yield* Effect.option(repository.lock(id))
        return Option.filter(account, (found) => found.passwordHash === passwordHash && found.status === "active")
      })

      return AccountCredentials.of({
        candidate: repository.candidate,
        passwordHash: Effect.fn("AccountCredentials.passwordHash")(function* (id: AccountId) {
          const principal = yield* CurrentPrincipal
          return (yield* database.transaction(scopeOf(principal), repository.get(id))).passwordHash
        }),
        admit: Effect.fn("AccountCredentials.admit")(function* (id: AccountId, passwordHash: string) {
          const held = yield* hold(id, passwordHash)
          if (Option.isNone(held)) return Option.none()
          const after = { ...held.value, lastSignInAt: yield* DateTime.now }
          yield* repository.touch(after)
          return Option.some(toResponse(after))
        }),
        replacePassword: Effect.fn("AccountCredentials.replacePassword")(function* (
          id: AccountId,
          from: string,
          to: string
        ) {
          const held = yield* hold(id, from)
          if (Option.isNone(held)) return Option.none()
          yield* Effect.orDie(repository.update({ ...held.value, passwordHash: to }))
          return Option.some(toResponse(held.value))
        }),
        exist: database.transaction("all", repository.exists)
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AccountsRepository.layer))
}
