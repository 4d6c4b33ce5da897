import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Queue, Schedule } from "effect"
import { type Change } from "../audit/domain.ts"
import { NotificationsRepository } from "./repository.ts"

const channel = "authority_changed"

/**
 * Tells every replica that a credential, its tenant or its scopes changed: over LISTEN/NOTIFY, sent with the transaction
 * of the change, and to this replica's own caches before the answer of the change leaves.
 */
export class AuthorityChanges extends Context.Service<
  AuthorityChanges,
  {
    /** Part of a change: once it is committed, this replica looks credentials up again, and the others soon after. */
    readonly announce: Effect.Effect<void, never, Change>
    /** Makes this replica look credentials up again from now on. */
    readonly clear: Effect.Effect<void>
    /** Registers a cache to be emptied, for the life of the service. */
    onChange(empty: Effect.Effect<void>): Effect.Effect<void>
  }
>()("app/auth/AuthorityChanges") {
  static readonly layerNoDeps = Layer.effect(
    AuthorityChanges,
    Effect.gen(function* () {
      const client = yield* PgClient.PgClient
      const { notify } = yield* NotificationsRepository
      const caches: Array<Effect.Effect<void>> = []
      const clear = Effect.suspend(() => Effect.all(caches, { discard: true }))

      // A lost connection may have swallowed a message, so every (re)connection empties the caches too.
      yield* Effect.scoped(
        Effect.gen(function* () {
          const notifications = yield* client.listen(channel)
          yield* clear
          return yield* Effect.forever(Effect.andThen(Queue.take(notifications), clear))
        })
      ).pipe(
        Effect.retry(Schedule.min([Schedule.exponential("100 millis"), Schedule.spaced("2 seconds")])),
        Effect.forkScoped
      )

      return AuthorityChanges.of({
        announce: Effect.andThen(notify(channel), client.afterCommit(clear)),
        clear,
        onChange: (empty) => Effect.sync(() => void caches.push(empty))
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(NotificationsRepository.layer))
}
