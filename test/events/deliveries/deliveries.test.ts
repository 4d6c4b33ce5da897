import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { AuditFeed } from "../../../src/audit/feed/feed.ts"
import { Audit } from "../../../src/audit/log/service.ts"
import { retryPauseMillis, retryPausesMillis } from "../../../src/events/deliveries/domain.ts"
import { DeliveryRepository } from "../../../src/events/deliveries/repository.ts"
import { Deliveries } from "../../../src/events/deliveries/service.ts"
import { TargetRepository } from "../../../src/events/deliveries/target-repository.ts"
import { Sealing } from "../../../src/platform/crypto/sealing.ts"
import { OutboundHttp } from "../../../src/platform/outbound/outbound-http.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"
import { HandClock, OwnDatabase, poolOnOwnDatabase } from "../../support/clock.ts"
import { asSuperuser } from "../../support/statements.ts"

describe("retries", () => {
  it("follow the schedule of Standard Webhooks with jitter, and end", () => {
    const [second, minute, hour] = [1000, 60_000, 3_600_000]
    assert.deepStrictEqual(retryPausesMillis, [
      5 * second!,
      5 * minute!,
      30 * minute!,
      2 * hour!,
      5 * hour!,
      10 * hour!,
      14 * hour!,
      20 * hour!,
      24 * hour!
    ])
    assert.deepStrictEqual([retryPauseMillis(1, 0), retryPauseMillis(1, 1)], [5000, 5500])
    assert.strictEqual(retryPauseMillis(9, 0), 24 * hour!)
    assert.isNull(retryPauseMillis(10, 0))
  })
})

/** A receiver that never succeeds, and when it was asked. */
const asked: Array<number> = []
const failingReceiver = Layer.effect(
  OutboundHttp,
  Effect.map(HandClock, (hand) =>
    OutboundHttp.of({
      send: () =>
        Effect.sync(() => {
          asked.push(hand.millis)
          return { status: 503, headers: {}, text: "", isCut: false }
        })
    })
  )
)

const ServicesLayer = Deliveries.layerNoDeps.pipe(
  Layer.provide([
    Audit.layer,
    DeliveryRepository.layer,
    TargetRepository.layer,
    failingReceiver,
    Layer.mock(AuditFeed)({}),
    Layer.mock(Sealing)({}),
    Settings.layerMemory()
  ]),
  Layer.provideMerge(poolOnOwnDatabase),
  Layer.provideMerge(HandClock.layer)
)

layer(ServicesLayer, { excludeTestServices: true, timeout: "60 seconds" })("a delivery that fails", (it) => {
  it.effect("is attempted when its pauses are over and not before, and then is over itself", () =>
    Effect.gen(function* () {
      const deliveries = yield* Deliveries
      const database = yield* OwnDatabase
      yield* HandClock.setTime("2090-01-01T00:00:00Z")
      yield* asSuperuser(
        database,
        (sql) =>
          sql`
          WITH entry AS (
            INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, outcome)
            VALUES (now(), 'UserCreated', 'TrialUser', 'system', 'system', 'success') RETURNING id, occurred_at
          ), target AS (
            INSERT INTO event_targets (id, kind, name, url, event_types, filters, config, status, after_sequence,
              created_at, created_by, updated_at)
            VALUES (gen_random_uuid(), 'webhook', 'never', 'https://never.invalid', '{*}', '[]', '{}', 'active', 0,
              now(), 'system', now())
            RETURNING id
          ), delivery AS (
            INSERT INTO event_deliveries (target_id, entry_id, occurred_at, sequence, type, status, due_at, created_at)
            SELECT target.id, entry.id, entry.occurred_at, 1, 'com.application-manager.trial-user.created', 'pending',
              now(), now() FROM entry, target
          )
          UPDATE event_dispatch SET revision = revision + 1`
      )
      yield* deliveries.pass
      assert.lengthOf(asked, 1)
      for (const [index, pause] of retryPausesMillis.entries()) {
        yield* HandClock.adjust(pause - 1)
        yield* deliveries.pass
        assert.lengthOf(asked, index + 1, `too early after ${index + 1} attempts`)
        yield* HandClock.adjust(pause * 0.1 + 1)
        yield* deliveries.pass
        assert.lengthOf(asked, index + 2, `late after ${index + 1} attempts`)
      }
      const stored = yield* asSuperuser(
        database,
        (sql) => sql<{ readonly status: string; readonly attempts: ReadonlyArray<unknown> }>`
          SELECT status, attempts FROM event_deliveries`
      )
      assert.deepStrictEqual([stored[0]?.status, stored[0]?.attempts.length], ["failed", 10])
      yield* HandClock.adjust(86_400_000)
      yield* deliveries.pass
      assert.lengthOf(asked, 10)
    })
  )
})
