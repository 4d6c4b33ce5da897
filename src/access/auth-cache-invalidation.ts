import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { KeyRevocations } from "../audit/attestation-keys/revocation.ts"
import { Change } from "../audit/log/domain.ts"
import { Notifications } from "../platform/database/notifications.ts"

const topic = "authority_changed"

/**
 * Invalidates the authentication caches when a credential, its tenant or its scopes change: those of this replica before the
 * change is answered, those of the others over LISTEN/NOTIFY with the transaction of the change.
 */
export class AuthCacheInvalidation extends Context.Service<
  AuthCacheInvalidation,
  {
    /** Part of a change: once it is committed, this replica looks credentials up again, and the others soon after. */
    readonly announce: Effect.Effect<void, never, Change>
    /** Makes this replica look credentials up again from now on. */
    readonly clear: Effect.Effect<void>
    /** Registers a cache to be emptied, for the life of the service. */
    onChange(empty: Effect.Effect<void>): Effect.Effect<void>
  }
>()("app/access/AuthCacheInvalidation") {
  static readonly layer = Layer.effect(
    AuthCacheInvalidation,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const notifications = yield* Notifications
      const caches: Array<Effect.Effect<void>> = []
      const clear = Effect.suspend(() => Effect.all(caches, { discard: true }))

      yield* notifications.subscribe(topic, { onMessage: () => clear, onGap: clear })

      return AuthCacheInvalidation.of({
        announce: Change.use(() => Effect.andThen(notifications.notify(topic, ""), sql.afterCommit(clear))),
        clear,
        onChange: (empty) => Effect.sync(() => void caches.push(empty))
      })
    })
  )

  static readonly layerKeyRevocations = Layer.effect(
    KeyRevocations,
    Effect.map(AuthCacheInvalidation, ({ announce }) => KeyRevocations.of({ announce }))
  )
}
