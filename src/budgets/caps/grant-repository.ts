import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema, type Statement } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { rowLock } from "../../platform/database/database.ts"
import { CapId, type StoredCap } from "../ledger/domain.ts"
import { GrantId } from "./domain.ts"

/** A grant as it is stored. */
export const StoredGrant = Schema.Struct({
  id: GrantId,
  capId: CapId,
  amount: Schema.BigInt,
  reason: Schema.String,
  expiresAt: Schema.NullOr(InstantFromDate),
  createdAt: InstantFromDate,
  createdBy: Schema.String,
  endedAt: Schema.NullOr(InstantFromDate)
})
export type StoredGrant = typeof StoredGrant.Type

export class GrantsRepository extends Context.Service<GrantsRepository>()("app/budgets/GrantsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const columns = sql.literal("id, cap_id, amount, reason, expires_at, created_at, created_by, ended_at")
    const selectPage = SqlSchema.findAll({
      Request: Schema.Struct({
        tenantId: Schema.String,
        capId: CapId,
        after: Schema.UndefinedOr(GrantId),
        limit: Schema.Int
      }),
      Result: StoredGrant,
      execute: ({ after, capId, limit, tenantId }) => sql`
          SELECT ${columns} FROM budget_grants
          WHERE tenant_id = ${tenantId} AND cap_id = ${capId} AND ${after === undefined ? sql`true` : sql`id > ${after}`}
          ORDER BY id LIMIT ${limit}`
    })
    const insertOne = SqlSchema.findOne({
      Request: Schema.Struct({
        tenantId: Schema.String,
        capId: CapId,
        amount: Schema.BigInt,
        reason: Schema.String,
        expiresAt: Schema.NullOr(Schema.DateTimeUtcFromDate),
        createdAt: Schema.DateTimeUtcFromDate,
        createdBy: Schema.String
      }),
      Result: StoredGrant,
      execute: (grant) => sql`
          INSERT INTO budget_grants (tenant_id, cap_id, amount, reason, expires_at, created_at, created_by)
          VALUES (${grant.tenantId}, ${grant.capId}, ${grant.amount}, ${grant.reason}, ${grant.expiresAt},
            ${grant.createdAt}, ${grant.createdBy})
          RETURNING ${columns}`
    })
    const selecting = (locking: Effect.Effect<Statement.Fragment>) =>
      SqlSchema.findOneOption({
        Request: Schema.Struct({ tenantId: Schema.String, capId: CapId, id: GrantId }),
        Result: StoredGrant,
        execute: ({ capId, id, tenantId }) =>
          Effect.flatMap(
            locking,
            (lock) => sql`
              SELECT ${columns} FROM budget_grants
              WHERE tenant_id = ${tenantId} AND cap_id = ${capId} AND id = ${id} ${lock}`
          )
      })
    const selectOne = selecting(rowLock(sql))
    const selectLocked = selecting(Effect.succeed(sql.literal("FOR UPDATE")))

    return {
      list: Effect.fn("GrantsRepository.list")(
        ({ id, tenantId }: StoredCap, after: GrantId | undefined, limit: number) =>
          Effect.orDie(selectPage({ tenantId, capId: id, after, limit }))
      ),
      find: Effect.fn("GrantsRepository.find")(({ id: capId, tenantId }: StoredCap, id: GrantId) =>
        Effect.orDie(selectOne({ tenantId, capId, id }))
      ),
      insert: Effect.fn("GrantsRepository.insert")(
        ({ id, tenantId }: StoredCap, grant: Omit<StoredGrant, "id" | "capId" | "endedAt">) =>
          Change.use(() => Effect.orDie(insertOne({ tenantId, capId: id, ...grant })))
      ),
      /** Ends a grant of a cap; the row before, none when the cap has no such grant. */
      end: Effect.fn("GrantsRepository.end")(({ id: capId, tenantId }: StoredCap, id: GrantId, at: DateTime.Utc) =>
        Change.use(() =>
          Effect.orDie(
            Effect.tap(
              selectLocked({ tenantId, capId, id }),
              sql`
                  UPDATE budget_grants SET ended_at = ${DateTime.toDateUtc(at)}
                  WHERE tenant_id = ${tenantId} AND cap_id = ${capId} AND id = ${id} AND ended_at IS NULL`
            )
          )
        )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
