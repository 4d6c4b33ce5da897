import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Exit, Fiber, Latch, Layer, Option, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { ChainRepository } from "../../../src/audit/chain/chain-repository.ts"
import { AuditChainer, linkBatch } from "../../../src/audit/chain/chainer.ts"
import { AuditRepository, type AuditRow } from "../../../src/audit/log/repository.ts"
import { AttestationKeys } from "../../../src/audit/signing-keys/service.ts"
import { SealBroken } from "../../../src/platform/crypto/sealing.ts"
import { DatabaseConnection } from "../../../src/platform/database/connection.ts"
import { poolLayer } from "../../../src/platform/database/database.ts"
import { Notifications } from "../../../src/platform/database/notifications.ts"
import { chainOf, chainSession, faultsOfChain, linkAll, writeEntries } from "../../support/chain.ts"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { asSuperuser, countOf } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

// Without a key there are no checkpoints, whose own entries would be among those counted here.
const noKeys = Layer.mock(AttestationKeys)({ signer: () => Effect.fail(new SealBroken({ reason: "other-key" })) })

const chainer = (database: TestDatabase) =>
  AuditChainer.layer.pipe(
    Layer.provide([noKeys, Layer.mock(Notifications)({ send: () => Effect.void })]),
    Layer.provide(
      Layer.succeed(DatabaseConnection, DatabaseConnection.of({ options: database, embeddedIn: Option.none() }))
    )
  )

const someRow: AuditRow = {
  occurred_at: new Date().toISOString(),
  action_type: "TenantCreated",
  entity_type: "Tenant",
  entity_id: "1",
  user_id: "system",
  actor_type: "system",
  tenant_id: null,
  application_id: null,
  outcome: "success",
  reason: null,
  count: 1,
  ip_address: null,
  user_agent: null,
  trace_id: null,
  changes: null
}

const linked = (database: TestDatabase) => countOf(database, "audit_links")
const untilLinked = (database: TestDatabase, count: number) => eventually(linked(database), (links) => links >= count)

const write = (database: TestDatabase, count: number, prefix?: string) =>
  asSuperuser(database, (sql) => writeEntries(sql, count, prefix))

/** The sessions that hold the chainer's lock in a database. */
const holders = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly pid: number }>`
      SELECT l.pid FROM pg_locks l JOIN pg_database d ON d.oid = l.database
      WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted AND l.objsubid = 1`
  )

const assertWhole = Effect.fnUntraced(function* (database: TestDatabase, count: number) {
  const chain = yield* chainOf(database)
  assert.deepStrictEqual(faultsOfChain(chain), [])
  assert.strictEqual(chain.length, count)
  assert.strictEqual(new Set(chain.map(({ id }) => id)).size, count)
})

describe("linking", { timeout: 60_000 }, () => {
  it.live("links every entry once, whatever the size of a batch", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* write(database, 25)
      for (const limit of [1, 7, 25, 100]) {
        yield* linkAll(database, limit)
        yield* write(database, 25)
      }
      const head = yield* linkAll(database, 1000)
      yield* assertWhole(database, 125)
      assert.strictEqual(head.sequence, 125)
      assert.strictEqual((yield* chainOf(database)).at(-1)?.hash, head.hash)
      assert.deepStrictEqual(yield* linkAll(database), head)
    })
  )

  it.live("an entry whose transaction commits behind others is linked behind them", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* PgClient.makeClient(database).pipe(
        Effect.flatMap((slow) =>
          slow.withTransaction(
            Effect.gen(function* () {
              yield* writeEntries(slow, 2, "late")
              yield* write(database, 3, "early")
              assert.strictEqual((yield* linkAll(database, 2)).sequence, 3)
              yield* slow.withTransaction(writeEntries(slow, 2, "late, in a savepoint"))
              yield* write(database, 1, "early again")
              assert.strictEqual((yield* linkAll(database, 2)).sequence, 4)
            })
          )
        ),
        Effect.scoped,
        Effect.provide(Reactivity.layer)
      )
      assert.strictEqual((yield* linkAll(database, 3)).sequence, 8)
      yield* assertWhole(database, 8)
      const order = (yield* chainOf(database)).map(({ entityId }) => entityId.replace(/ \d+$/, ""))
      assert.deepStrictEqual([...new Set(order)], ["early", "early again", "late", "late, in a savepoint"])
    })
  )

  it.live("an entry that was rolled back leaves no gap", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* asSuperuser(database, (sql) =>
        Effect.ignore(sql.withTransaction(Effect.andThen(writeEntries(sql, 5), Effect.fail("no"))))
      )
      yield* write(database, 2)
      yield* linkAll(database)
      yield* assertWhole(database, 2)
    })
  )

  it.live("a chainer that ends between two batches is continued where it stopped", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* write(database, 25)
      for (let round = 0; round < 3; round++) {
        const state = yield* Effect.flatMap(ChainRepository, (chain) => chain.state).pipe(
          Effect.flatMap((state) => linkBatch(state, 4)),
          Effect.provide(chainSession(database))
        )
        assert.strictEqual(state.sequence, (round + 1) * 4)
        yield* write(database, 2)
      }
      yield* linkAll(database, 4)
      yield* linkAll(database, 4)
      yield* assertWhole(database, 31)
    })
  )

  it.live("a batch that fails in its midst links nothing", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* write(database, 5)
      yield* asSuperuser(database, (sql) => sql`ALTER TABLE audit_links ADD CONSTRAINT few CHECK (sequence < 3)`)
      assert.isTrue(Exit.isFailure(yield* Effect.exit(linkAll(database))))
      assert.strictEqual(yield* linked(database), 0)
      yield* asSuperuser(database, (sql) => sql`ALTER TABLE audit_links DROP CONSTRAINT few`)
      yield* linkAll(database)
      yield* assertWhole(database, 5)
    })
  )

  it.live("two at the same place, without their lock: one of them stops, and the chain stays one", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* write(database, 10)
      const once = Effect.gen(function* () {
        const chain = yield* ChainRepository
        return yield* linkBatch(yield* chain.state, 100)
      }).pipe(Effect.provide(chainSession(database)), Effect.exit)
      yield* Effect.all([once, once, once, once], { concurrency: "unbounded" })
      yield* linkAll(database)
      yield* assertWhole(database, 10)
    })
  )

  it.live("a database that was restored on a younger server goes on, with what was not linked on the older", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* write(database, 3)
      yield* linkAll(database)
      yield* write(database, 4)
      // On the older server everything had a greater number, and it ended in the midst of a pass.
      yield* asSuperuser(database, (sql) =>
        Effect.gen(function* () {
          yield* sql`SET session_replication_role = replica`
          yield* sql`UPDATE audit_entries SET transaction_id = (transaction_id::text::bigint + 4000000000)::text::xid8`
          yield* sql`
            UPDATE audit_chain SET linked = '4000000000:4000000000:', pass = '4100000000:4100000000:',
              passed_transaction = '4099999999', passed_entry = new_id()`
        })
      )
      yield* write(database, 3)
      assert.strictEqual((yield* linkAll(database, 2)).sequence, 10)
      yield* write(database, 3)
      yield* linkAll(database, 2)
      yield* assertWhole(database, 13)
      const waiting = yield* Effect.flatMap(ChainRepository, (chain) => Effect.flatMap(chain.state, chain.look)).pipe(
        Effect.provide(chainSession(database))
      )
      assert.isTrue(Option.isNone(waiting))
    })
  )
})

describe("the chainer", { timeout: 60_000 }, () => {
  it.live("links what is written, soon", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* Layer.build(Layer.fresh(chainer(database)))
      for (let round = 1; round <= 5; round++) {
        yield* write(database, 3)
        yield* untilLinked(database, round * 3)
      }
      yield* assertWhole(database, 15)
    })
  )

  it.live("links what its own replica writes without looking for it again", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const real = yield* Clock.Clock
      const sleeping = yield* Latch.make()
      const clock: Clock.Clock = Object.assign(Object.create(real), {
        sleep: (duration: Duration.Duration) =>
          Duration.toMillis(duration) === 200 ? Effect.andThen(sleeping.open, Effect.never) : real.sleep(duration)
      })
      const pool = poolLayer({ connection: database, maxConnections: 2, statementTimeoutSeconds: 30 })
      const replica = Layer.merge(chainer(database), AuditRepository.layer.pipe(Layer.provide(pool)))
      const context = yield* Effect.provideService(Layer.build(replica), Clock.Clock, clock)
      yield* sleeping.await
      yield* Context.get(context, AuditRepository).insert([someRow])
      yield* untilLinked(database, 1)
    })
  )

  it.live("of two on a database one is at work; when its session is killed the other takes over", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      yield* Layer.build(Layer.fresh(chainer(database)))
      yield* Layer.build(Layer.fresh(chainer(database)))
      const writing = yield* write(database, 2).pipe(Effect.repeat({ times: 199 }), Effect.forkScoped)
      for (let killed = 0; killed < 5; killed++) {
        const [holder] = yield* eventually(holders(database), (found) => found.length > 0)
        assert.isDefined(holder)
        yield* untilLinked(database, (killed + 1) * 20)
        assert.isAtMost((yield* holders(database)).length, 1)
        yield* asSuperuser(database, (sql) => sql`SELECT pg_terminate_backend(${holder?.pid ?? 0})`)
      }
      yield* Fiber.join(writing)
      yield* untilLinked(database, 400)
      yield* assertWhole(database, 400)
    })
  )

  it.live("one that ends leaves its place to the next at once", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      for (let round = 1; round <= 3; round++) {
        const scope = yield* Scope.make()
        yield* Scope.provide(Layer.build(Layer.fresh(chainer(database))), scope)
        yield* write(database, 3)
        yield* untilLinked(database, round * 3)
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* eventually(holders(database), (found) => found.length === 0), [])
      }
      yield* assertWhole(database, 9)
    })
  )
})
