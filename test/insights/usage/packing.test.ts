import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const rows = 12_000
const looseBytes = 55
const packedBytes = 48

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the indexes of usage rows", (it) => {
  it.effect("are built anew when their month is over and they take more than they need, once", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      yield* asSuperuser(database, (sql) =>
        Effect.andThen(
          sql`SELECT usage_make_partitions('2024-02-01', 1)`,
          sql`
            INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, created_by)
            SELECT t.id, new_id(), new_id(), '2024-02-01'::timestamptz + g * interval '1 second', 0, 0, 'reported', 'test'
            FROM generate_series(1, ${rows}::integer) g
            JOIN (SELECT (array_agg(id))[1:4] AS ids FROM (SELECT gen_random_uuid() AS id FROM generate_series(1, 4)) i) i ON true
            CROSS JOIN LATERAL (SELECT i.ids[1 + g % 4] AS id) t`
        )
      )
      const bytesOfRow = asSuperuser(
        database,
        (sql) => sql<{ readonly bytes: number }>`
          SELECT pg_relation_size('usage_rows_2024_02_tenant_id_occurred_at_idx')::integer / ${rows}::integer AS bytes`
      ).pipe(Effect.map(([found]) => found?.bytes ?? 0))
      const pack = asSuperuser(
        database,
        (sql) => sql<{ readonly packed: string | null }>`SELECT usage_pack_month() AS packed`
      ).pipe(Effect.map(([found]) => found?.packed))

      assert.isAbove(yield* bytesOfRow, looseBytes)
      yield* asSuperuser(database, (sql) => sql`ANALYZE usage_rows_2024_02`)
      yield* eventually(pack, (packed) => packed === "usage_rows_2024_02_tenant_id_occurred_at_idx")
      assert.isBelow(yield* bytesOfRow, packedBytes)
      assert.isNull(yield* pack)
      yield* asSuperuser(database, (sql) => sql`DROP TABLE usage_rows_2024_02`)
    })
  )
})
