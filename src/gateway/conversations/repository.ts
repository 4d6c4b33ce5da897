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

/** What is known of a turn before it is read. */
const TurnHead = Schema.Struct({
  id: Uuid,
  previousId: Schema.NullOr(Uuid),
  bytes: Schema.Int,
  createdAt: InstantFromDate
})
export type TurnHead = typeof TurnHead.Type

/** A turn of a tenant; of one principal alone, unless `createdBy` is null. */
const Turn = Schema.Struct({ tenantId: TenantId, id: Uuid, createdBy: Schema.NullOr(Schema.String) })

const Ids = Schema.Array(Uuid)

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const insert = SqlSchema.void({
    Request: StoredTurn,
    execute: ({ createdAt, createdBy, id, previousId, sealed, tenantId }) => sql`
      INSERT INTO gateway_responses (tenant_id, id, previous_id, created_by, sealed, created_at)
      VALUES (${tenantId}, ${id}, ${previousId}, ${createdBy}, ${sealed}, ${createdAt})`
  })
  const selectHeads = SqlSchema.findAll({
    Request: Schema.Struct({ tenantId: TenantId, ids: Ids, createdBy: Schema.NullOr(Schema.String) }),
    Result: TurnHead,
    execute: ({ createdBy, ids, tenantId }) => sql`
      SELECT id, previous_id, bytes, created_at FROM gateway_responses
      WHERE tenant_id = ${tenantId} AND id = ANY (${ids}::uuid[]) AND created_by = coalesce(${createdBy}, created_by)`
  })
  const selectChain = SqlSchema.findAll({
    Request: Schema.Struct({ ...Turn.fields, most: Schema.Int }),
    Result: TurnHead,
    execute: ({ createdBy, id, most, tenantId }) => sql`
      WITH RECURSIVE chain AS (
        SELECT r.id, r.previous_id, r.bytes, r.created_at, 1 AS depth FROM gateway_responses r
        WHERE r.tenant_id = ${tenantId} AND r.id = ${id} AND r.created_by = coalesce(${createdBy}, r.created_by)
        UNION ALL
        SELECT r.id, r.previous_id, r.bytes, r.created_at, c.depth + 1
        FROM chain c JOIN gateway_responses r ON r.tenant_id = ${tenantId} AND r.id = c.previous_id
          AND r.created_by = coalesce(${createdBy}, r.created_by)
        WHERE c.depth < ${most}
      )
      SELECT id, previous_id, bytes, created_at FROM chain ORDER BY depth`
  })
  const selectSealed = SqlSchema.findAll({
    Request: Schema.Struct({ tenantId: TenantId, ids: Ids }),
    Result: Schema.Struct({ id: Uuid, sealed: Schema.Uint8Array }),
    execute: ({ ids, tenantId }) => sql`
      SELECT id, sealed FROM gateway_responses WHERE tenant_id = ${tenantId} AND id = ANY (${ids}::uuid[])`
  })
  const selectBytes = SqlSchema.findOne({
    Request: TenantId,
    Result: Schema.Struct({ bytes: Schema.Finite }),
    execute: (tenantId) => sql`
      SELECT coalesce(sum(bytes), 0)::float8 AS bytes FROM gateway_responses WHERE tenant_id = ${tenantId}`
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
    /** Those of these turns that there are. */
    heads: Effect.fn("TurnsRepository.heads")((turns: Parameters<typeof selectHeads>[0]) =>
      Effect.orDie(selectHeads(turns))
    ),
    /** A turn and at most so many before it, the latest first. */
    chain: Effect.fn("TurnsRepository.chain")((turn: Parameters<typeof selectChain>[0]) =>
      Effect.orDie(selectChain(turn))
    ),
    /** What turns contain. */
    sealed: Effect.fn("TurnsRepository.sealed")((turns: Parameters<typeof selectSealed>[0]) =>
      Effect.orDie(selectSealed(turns))
    ),
    /** The bytes of all turns of a tenant. */
    bytesOf: Effect.fn("TurnsRepository.bytesOf")((tenantId: TenantId) =>
      Effect.map(Effect.orDie(selectBytes(tenantId)), ({ bytes }) => bytes)
    ),
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
