import { Context, DateTime, Effect, Layer } from "effect"
import { Notifications } from "../../platform/database/notifications.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { type AttestationKey, type KeyPurpose } from "./domain.ts"
import { AttestationKeysRepository } from "./repository.ts"

const topic = "attestation_keys_changed"

/** The service's own keys as this replica knows them; whether one is valid depends on the time that it is used for. */
export class KeyRing extends Context.Service<KeyRing>()("app/audit/KeyRing", {
  make: Effect.gen(function* () {
    const notifications = yield* Notifications
    const repository = yield* AttestationKeysRepository
    let keys: ReadonlyArray<AttestationKey> = []
    let loadedAt = 0

    const reload = Effect.gen(function* () {
      loadedAt = (yield* DateTime.now).epochMilliseconds
      keys = yield* repository.own
    })
    yield* reload
    yield* notifications.subscribe(topic, { onMessage: () => reload, onGap: reload })
    // A notification is a hint that may be lost; a new key is announced for far longer than this before it signs.
    yield* repeatJob("look at the signing keys", "1 minute", reload)

    const signing = Effect.fnUntraced(function* (purpose: KeyPurpose) {
      const now = yield* DateTime.now
      return keys.find((key) => key.purpose === purpose && key.maySign(now))
    })

    // Any request may name an unknown key, so those are looked up once a second at most.
    const find = Effect.fnUntraced(function* (keyId: string) {
      const known = keys.find((key) => key.keyId === keyId)
      if (known !== undefined) return known
      const now = yield* DateTime.now
      if (Math.abs(now.epochMilliseconds - loadedAt) < 1000) return undefined
      yield* reload
      return keys.find((key) => key.keyId === keyId)
    })

    return {
      /** Every key, the newest first. */
      all: Effect.sync(() => keys),
      /** The newest key that may sign now. */
      signing,
      find,
      /** Reads the keys from the database again. */
      reload,
      /** Part of a change of the keys: every replica looks at them once it is committed. */
      announce: notifications.notify(topic, "")
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
