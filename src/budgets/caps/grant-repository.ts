import { Context, DateTime, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { CapId, GrantId } from "../ledger/cap-domain.ts"
import { type StoredCap } from "../ledger/cap-repository.ts"

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

export class GrantsRepository extends Context.Service<
  GrantsRepository,
  {
    list(cap: StoredCap, after: GrantId | undefined, limit: number): Effect.Effect<ReadonlyArray<StoredGrant>>
    find(cap: StoredCap, id: GrantId): Effect.Effect<Option.Option<StoredGrant>>
    insert(
      cap: StoredCap,
      grant: Pick<StoredGrant, "amount" | "reason" | "expiresAt" | "createdAt" | "createdBy">
    ): Effect.Effect<StoredGrant, never, Change>
    /** Ends a grant of a cap; the row before, none when the cap has no such grant. */
    end(cap: StoredCap, id: GrantId, at: DateTime.Utc): Effect.Effect<Option.Option<StoredGrant>, never, Change>
  }
>()("app/budgets/GrantsRepository") {
  static readonly layer = Layer.effect(
    GrantsRepository,
    Effect.gen(function* () {
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
      const selecting = (locking: string) =>
        SqlSchema.findOneOption({
          Request: Schema.Struct({ tenantId: Schema.String, capId: CapId, id: GrantId }),
          Result: StoredGrant,
          execute: ({ capId, id, tenantId }) => sql`
            SELECT ${columns} FROM budget_grants
            WHERE tenant_id = ${tenantId} AND cap_id = ${capId} AND id = ${id} ${sql.literal(locking)}`
        })
      const selectOne = selecting("")
      const selectLocked = selecting("FOR UPDATE")

      return GrantsRepository.of({
        list: Effect.fn("GrantsRepository.list")(({ id, tenantId }, after, limit) =>
          Effect.orDie(selectPage({ tenantId, capId: id, after, limit }))
        ),
        find: Effect.fn("GrantsRepository.find")(({ id: capId, tenantId }, id) =>
          Effect.orDie(selectOne({ tenantId, capId, id }))
        ),
        insert: Effect.fn("GrantsRepository.insert")(({ id, tenantId }, grant) =>
          Change.use(() => Effect.orDie(insertOne({ tenantId, capId: id, ...grant })))
        ),
        end: Effect.fn("GrantsRepository.end")(({ id: capId, tenantId }, id, at) =>
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
      })
    })
  )
}
