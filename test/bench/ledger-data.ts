import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import * as path from "node:path"
import { connection, join } from "../../src/platform/embedded-postgres/embedded-postgres.ts"

/** Runs statements as the superuser on the database of a running service. */
const onDatabase = <A>(
  directory: string,
  statements: (sql: PgClient.PgClient) => Effect.Effect<A, unknown>
): Promise<A> =>
  join({ directory: path.join(directory, ".data") }).pipe(
    Effect.flatMap((server) => PgClient.makeClient(connection(server))),
    Effect.flatMap(statements),
    Effect.scoped,
    Effect.provide(Reactivity.layer),
    Effect.orDie,
    Effect.runPromise
  )

/** Where the database of a running service is, and its superuser's password. */
export const placeOf = (directory: string) =>
  join({ directory: path.join(directory, ".data") }).pipe(
    Effect.map(({ host, password, port }) => ({ host, port, password: Redacted.value(password) })),
    Effect.scoped,
    Effect.orDie,
    Effect.runPromise
  )

/** Writes reservations of the last ninety days that have ended, of the tenants of caps by this name and of the naive ledger. */
export const addOld = (directory: string, capName: string, count: number): Promise<void> =>
  onDatabase(directory, (sql) =>
    Effect.gen(function* () {
      yield* sql`
        INSERT INTO budget_reservations (tenant_id, id, state, origin, task_type, amount, tokens, ttl_seconds, expires_at,
          created_at, created_by, counter_ids, closed_at)
        SELECT c.tenant_id, uuidv7(-o.age), CASE WHEN o.n % 2 = 0 THEN 'expired' ELSE 'released' END, 'api', 'old', 1000, 0,
          300, now() - o.age, now() - o.age, 'service-account', ARRAY[c.id], now() - o.age
        FROM (
          SELECT b.tenant_id, b.id FROM budget_counters b JOIN budget_caps k ON k.tenant_id = b.tenant_id AND k.id = b.cap_id
          WHERE k.name = ${capName} LIMIT 1) c,
          (SELECT n, interval '90 days' * (1 - n::double precision / ${count}::integer) AS age
            FROM generate_series(1, ${count}::integer) n) o`
      yield* sql`
        INSERT INTO naive_reservations SELECT k.tenant_id, uuidv7(-o.age), 'expired', NULL, NULL, 'old', 1000, 0, 300,
          now() - o.age, now() - o.age, 'api-key:one', ARRAY[]::uuid[]
        FROM (SELECT tenant_id FROM naive_keys WHERE name = 'api-key:one') k,
          (SELECT n, interval '90 days' * (1 - n::double precision / ${count}::integer) AS age
            FROM generate_series(1, ${count}::integer) n) o`
      yield* sql`VACUUM (ANALYZE) budget_reservations, naive_reservations`
    })
  )

/** Lets reservations on the counter of a cap be due at once, and waits until the service has ended them; answers how many a second. */
export const sweepRate = (directory: string, capName: string, count: number): Promise<number> =>
  onDatabase(directory, (sql) =>
    Effect.gen(function* () {
      yield* sql`
        WITH counter AS (
          SELECT b.tenant_id, b.id FROM budget_counters b JOIN budget_caps k ON k.tenant_id = b.tenant_id AND k.id = b.cap_id
          WHERE k.name = ${capName} LIMIT 1
        ), held AS (
          UPDATE budget_counters b SET reserved = b.reserved + 1000 * ${count}::bigint FROM counter c
          WHERE b.tenant_id = c.tenant_id AND b.id = c.id)
        INSERT INTO budget_reservations (tenant_id, id, state, origin, task_type, amount, tokens, ttl_seconds, expires_at,
          created_at, created_by, counter_ids)
        SELECT c.tenant_id, uuidv7(), 'open', 'api', 'due', 1000, 0, 300, now() - interval '1 second',
          now() - interval '6 minutes', 'service-account', ARRAY[c.id]
        FROM counter c, generate_series(1, ${count}::integer)`
      for (;;) {
        const [row] = yield* sql<{ readonly left: boolean }>`
          SELECT EXISTS (
            SELECT FROM budget_reservations WHERE state IN ('open', 'held') AND expires_at <= now() AND task_type = 'due'
          ) AS left`
        if (row?.left === false) break
        yield* Effect.sleep("200 millis")
      }
      const [swept] = yield* sql<{ readonly batches: bigint; readonly seconds: number }>`
        SELECT count(DISTINCT closed_at) AS batches,
          extract(epoch FROM max(closed_at) - min(closed_at))::double precision AS seconds
        FROM budget_reservations WHERE task_type = 'due'`
      // The last batch began when its rows were closed, so the others were ended between the first and the last.
      return swept === undefined ? Number.NaN : (count * (1 - 1 / Number(swept.batches))) / swept.seconds
    })
  )
