import { Context, type DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"

const StoredTurn = Schema.Struct({
  tenantId: TenantId,
  id: Uuid,
  previousId: Schema.NullOr(Uuid),
  createdBy: Schema.String,
  sealed: Schema.Uint8Array,
  createdAt: InstantFromDate
})
export type StoredTurn = typeof StoredTurn.Type

/** A turn of a tenant; of one principal alone, unless `createdBy` is null. */
const Turn = Schema.Struct({ tenantId: TenantId, id: Uuid, createdBy: Schema.NullOr(Schema.String) })

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const insert = SqlSchema.void({
    Request: StoredTurn,
    execute: ({ createdAt, createdBy, id, previousId, sealed, tenantId }) => sql`
      INSERT INTO gateway_responses (tenant_id, id, previous_id, created_by, sealed, created_at)
      VALUES (${tenantId}, ${id}, ${previousId}, ${createdBy}, ${sealed}, ${createdAt})`
  })
  const selectOne = SqlSchema.findOneOption({
    Request: Turn,
    Result: StoredTurn,
    execute: ({ createdBy, id, tenantId }) => sql`
      SELECT tenant_id, id, previous_id, created_by, sealed, created_at FROM gateway_responses
      WHERE tenant_id = ${tenantId} AND id = ${id} AND created_by = coalesce(${createdBy}, created_by)`
  })
  const selectChain = SqlSchema.findAll({
    Request: Turn,
    Result: StoredTurn,
    execute: ({ createdBy, id, tenantId }) => sql`
      WITH RECURSIVE chain AS (
        SELECT r.*, 1 AS depth FROM gateway_responses r WHERE r.tenant_id = ${tenantId} AND r.id = ${id}
          AND r.created_by = coalesce(${createdBy}, r.created_by)
        UNION ALL
        SELECT r.*, c.depth + 1 FROM gateway_responses r JOIN chain c ON r.tenant_id = c.tenant_id AND r.id = c.previous_id
          AND r.created_by = coalesce(${createdBy}, r.created_by)
      )
      SELECT tenant_id, id, previous_id, created_by, sealed, created_at FROM chain ORDER BY depth DESC`
  })
  const remove = SqlSchema.findAll({
    Request: Turn,
    Result: Schema.Struct({ id: Uuid }),
    execute: ({ createdBy, id, tenantId }) => sql`
      DELETE FROM gateway_responses
      WHERE tenant_id = ${tenantId} AND id = ${id} AND created_by = coalesce(${createdBy}, created_by) RETURNING id`
  })
  const purge = SqlSchema.void({
    Request: Schema.DateTimeUtcFromDate,
    execute: (before) => sql`DELETE FROM gateway_responses WHERE created_at < ${before}`
  })
  return {
    insert: Effect.fn("TurnsRepository.insert")((turn: StoredTurn) => Effect.orDie(insert(turn))),
    find: Effect.fn("TurnsRepository.find")((turn: typeof Turn.Type) => Effect.orDie(selectOne(turn))),
    /** A turn and those before it, the first one first. */
    chain: Effect.fn("TurnsRepository.chain")((turn: typeof Turn.Type) => Effect.orDie(selectChain(turn))),
    /** Whether it was there. */
    remove: Effect.fn("TurnsRepository.remove")((turn: typeof Turn.Type) =>
      Effect.map(Effect.orDie(remove(turn)), (removed) => removed.length > 0)
    ),
    purge: (before: DateTime.Utc) => Effect.orDie(purge(before))
  }
})

/** Stored turns: encrypted, and deleted when they expire. */
export class TurnsRepository extends Context.Service<TurnsRepository, Effect.Success<typeof make>>()(
  "app/gateway/TurnsRepository"
) {
  static readonly layer = Layer.effect(TurnsRepository, make)
}
