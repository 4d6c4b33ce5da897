import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { TestClock } from "effect/testing"
import { makeRefusals } from "../../../src/audit/log/refusals.ts"
import { type AuditRow } from "../../../src/audit/log/repository.ts"

const refusal = (members: Partial<AuditRow> = {}): AuditRow => ({
  occurred_at: "2026-01-01T00:00:00.000Z",
  action_type: "ApiKeyRefused",
  entity_type: "ApiKey",
  entity_id: "amk_4fG7hK2mQ9xZ",
  user_id: "anonymous",
  actor_type: "anonymous",
  tenant_id: null,
  application_id: null,
  outcome: "denied",
  reason: "unknown",
  count: 1,
  ip_address: "203.0.113.7",
  user_agent: "curl/8.5.0",
  trace_id: "4bf92f3577b34da6a3ce929d0e0e4736",
  changes: null,
  ...members
})

/** Refusals that write into `written`. */
const collecting = Effect.gen(function* () {
  const written: Array<AuditRow> = []
  const { add } = yield* makeRefusals((rows) => Effect.sync(() => void written.push(...rows)))
  return { add, written }
})

const counts = (rows: ReadonlyArray<AuditRow>) => rows.map((row) => row.count)

describe("refusals in the audit log", () => {
  it.effect("the first is written at once", () =>
    Effect.gen(function* () {
      const { add, written } = yield* collecting
      yield* add(refusal())
      assert.deepStrictEqual(written, [refusal()])
    })
  )

  it.effect("like ones within a minute become one entry with their count when the minute is over", () =>
    Effect.gen(function* () {
      const { add, written } = yield* collecting
      for (let count = 0; count < 5; count++) {
        yield* add(refusal({ trace_id: String(count).padStart(32, "0") }))
        yield* TestClock.adjust("10 seconds")
      }
      assert.deepStrictEqual(counts(written), [1])
      yield* TestClock.adjust("15 seconds")
      assert.deepStrictEqual(counts(written), [1, 4])
      yield* TestClock.adjust("10 minutes")
      assert.deepStrictEqual(counts(written), [1, 4])
    })
  )

  it.effect("a refusal after the minute is the first of another", () =>
    Effect.gen(function* () {
      const { add, written } = yield* collecting
      yield* add(refusal())
      yield* TestClock.adjust("65 seconds")
      yield* add(refusal())
      assert.deepStrictEqual(counts(written), [1, 1])
    })
  )

  const others: ReadonlyArray<readonly [string, Partial<AuditRow>]> = [
    ["reason", { reason: "revoked" }],
    ["caller", { user_id: "api-key:0198a5b0-7c00-7000-8000-00000000002a" }],
    ["tenant", { tenant_id: "0198a5b0-7c00-7000-8000-00000000002a", changes: { before: null, after: { limit: 1 } } }],
    ["address", { ip_address: "203.0.113.8" }],
    ["target", { entity_id: "amk_000000000000" }],
    ["action", { action_type: "AccessForbidden" }]
  ]
  for (const [what, members] of others) {
    it.effect(`one with another ${what} is another`, () =>
      Effect.gen(function* () {
        const { add, written } = yield* collecting
        yield* add(refusal())
        yield* add(refusal(members))
        yield* add(refusal(members))
        assert.deepStrictEqual(written, [refusal(), refusal(members)])
        yield* TestClock.adjust("65 seconds")
        assert.deepStrictEqual(written.slice(2), [refusal(members)])
      })
    )
  }

  it.effect("what is still counted is written when the service ends", () =>
    Effect.gen(function* () {
      const scope = yield* Scope.make()
      const { add, written } = yield* Scope.provide(collecting, scope)
      for (let count = 0; count < 3; count++) yield* add(refusal())
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(counts(written), [1, 2])
    })
  )

  it.effect("a flood of ever new targets fills neither the log nor the memory, and is counted in full", () =>
    Effect.gen(function* () {
      const { add, written } = yield* collecting
      const sent = 12_000
      for (let count = 0; count < sent; count++) yield* add(refusal({ entity_id: String(count) }))
      assert.isAtMost(written.length, 10_001)
      yield* TestClock.adjust("65 seconds")
      assert.strictEqual(
        counts(written).reduce((a, b) => a + b),
        sent
      )
      assert.isAtMost(written.length, 10_002)
    })
  )

  it.effect("a flood hides nobody else's: what is beyond it is counted by action and network, with the network", () =>
    Effect.gen(function* () {
      const { add, written } = yield* collecting
      for (let count = 0; count < 10_000; count++) yield* add(refusal({ entity_id: String(count) }))
      for (const ip_address of ["198.51.100.1", "198.51.100.1", "2001:db8::1", "2001:db8::2"])
        yield* add(refusal({ ip_address }))
      yield* add(refusal({ ip_address: "198.51.100.1", action_type: "SignInRefused" }))
      const tenant_id = "0198a5b0-7c00-7000-8000-00000000002a"
      yield* add(refusal({ ip_address: "198.51.100.1", tenant_id }))
      assert.deepInclude(written.at(-1), { tenant_id, count: 1 })
      const beyond = written.slice(10_000).map(({ action_type, ip_address }) => [action_type, ip_address])
      assert.deepStrictEqual(beyond, [
        ["ApiKeyRefused", "198.51.100.1"],
        ["ApiKeyRefused", "2001:db8:0:0::/64"],
        ["SignInRefused", "198.51.100.1"],
        ["ApiKeyRefused", "198.51.100.1"]
      ])
      const strangers = 12_000
      for (let count = 0; count < strangers; count++)
        yield* add(refusal({ ip_address: `2001:db8:${count.toString(16)}::1` }))
      assert.isAtMost(written.length, 20_001)
      yield* TestClock.adjust("65 seconds")
      assert.strictEqual(
        counts(written).reduce((a, b) => a + b),
        10_000 + 6 + strangers
      )
    })
  )

  it.effect("a log that cannot be written to refuses nobody the answer", () =>
    Effect.gen(function* () {
      const { add } = yield* makeRefusals(() => Effect.die("the database is away"))
      yield* add(refusal())
      yield* add(refusal())
      yield* TestClock.adjust("65 seconds")
    })
  )
})
