import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { ReservationId } from "../../budgets/ledger/domain.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { rowLock } from "../../platform/database/database.ts"
import { readRows } from "../../platform/database/table.ts"
import { ProviderId } from "../configuration/domain.ts"
import { BrokenBoundId, BrokenBoundNotFound, type BrokenBoundStatus } from "./domain.ts"

export const StoredBrokenBound = Schema.Struct({
  id: BrokenBoundId,
  provider: ProviderId,
  model: Schema.String,
  operation: Schema.String,
  reservationId: ReservationId,
  reserved: Schema.BigInt,
  charged: Schema.BigInt,
  reservedTokens: Schema.NullOr(Schema.BigInt),
  chargedTokens: Schema.NullOr(Schema.BigInt),
  times: Schema.Int,
  brokenAt: InstantFromDate,
  acknowledgedAt: Schema.NullOr(InstantFromDate),
  acknowledgedBy: Schema.NullOr(Schema.String),
  reason: Schema.NullOr(Schema.String)
})
export type StoredBrokenBound = typeof StoredBrokenBound.Type

/** Reads what the ledger notes with the charges. */
export class BrokenBoundsRepository extends Context.Service<BrokenBoundsRepository>()(
  "app/gateway/BrokenBoundsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const stored = readRows(StoredBrokenBound)
      const one = (statement: Effect.Effect<unknown, unknown>) =>
        Effect.flatMap(stored(statement), ([row]) =>
          row === undefined ? Effect.fail(new BrokenBoundNotFound({})) : Effect.succeed(row)
        )
      const isOver = sql`acknowledged_at IS NULL`

      return {
        /** Those that are not acknowledged. */
        over: stored(sql`SELECT * FROM gateway_broken_bounds WHERE ${isOver} ORDER BY id`),
        list: Effect.fn("BrokenBoundsRepository.list")(
          (status: BrokenBoundStatus | undefined, after: BrokenBoundId | undefined, limit: number) =>
            stored(sql`
              SELECT * FROM gateway_broken_bounds WHERE ${sql.and([
                sql`true`,
                ...(status === undefined ? [] : [status === "over" ? isOver : sql`acknowledged_at IS NOT NULL`]),
                ...(after === undefined ? [] : [sql`id < ${after}`])
              ])} ORDER BY id DESC LIMIT ${limit}`)
        ),
        get: Effect.fn("BrokenBoundsRepository.get")((id: BrokenBoundId) =>
          Effect.flatMap(rowLock(sql), (lock) => one(sql`SELECT * FROM gateway_broken_bounds WHERE id = ${id} ${lock}`))
        ),
        lock: Effect.fn("BrokenBoundsRepository.lock")((id: BrokenBoundId) =>
          Effect.andThen(Change, one(sql`SELECT * FROM gateway_broken_bounds WHERE id = ${id} FOR UPDATE`))
        ),
        acknowledge: Effect.fn("BrokenBoundsRepository.acknowledge")((id: BrokenBoundId, by: string, reason: string) =>
          Effect.andThen(
            Change,
            one(sql`
              UPDATE gateway_broken_bounds SET acknowledged_at = now(), acknowledged_by = ${by}, reason = ${reason}
              WHERE id = ${id} RETURNING *`)
          )
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
