import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { KeyRevocations } from "../audit/attestation-keys/revocation.ts"
import { Change } from "../audit/log/domain.ts"
import { Notifications } from "../platform/database/notifications.ts"

const topic = "authority_changed"

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
  static readonly layer = Layer.effect(
    AuthorityChanges,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const notifications = yield* Notifications
      const caches: Array<Effect.Effect<void>> = []
      const clear = Effect.suspend(() => Effect.all(caches, { discard: true }))

      yield* notifications.subscribe(topic, { onMessage: () => clear, onGap: clear })

      return AuthorityChanges.of({
        announce: Change.use(() => Effect.andThen(notifications.notify(topic, ""), sql.afterCommit(clear))),
        clear,
        onChange: (empty) => Effect.sync(() => void caches.push(empty))
      })
    })
  )

  static readonly layerKeyRevocations = Layer.effect(
    KeyRevocations,
    Effect.map(AuthorityChanges, ({ announce }) => KeyRevocations.of({ announce }))
  )
}
