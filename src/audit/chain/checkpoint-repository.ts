import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { InstantFromDate } from "../../kernel/instant.ts"
import { AuditCheckpoint } from "../log/domain.ts"

const Row = Schema.Struct({ ...AuditCheckpoint.fields, signedAt: InstantFromDate })

/** The signed checkpoints; they are only ever added. */
export class CheckpointRepository extends Context.Service<CheckpointRepository>()("app/audit/CheckpointRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const columns = sql.literal(
      "sequence::double precision AS sequence, encode(hash, 'hex') AS hash, signed_at, key_id, jws"
    )
    const Page = Schema.Struct({ sequence: Schema.Int, limit: Schema.Int })
    const selectBelow = SqlSchema.findAll({
      Request: Page,
      Result: Row,
      execute: ({ limit, sequence }) => sql`
          SELECT ${columns} FROM audit_checkpoints WHERE audit_checkpoints.sequence < ${sequence}::bigint
          ORDER BY audit_checkpoints.sequence DESC LIMIT ${limit}`
    })
    const selectAbove = SqlSchema.findAll({
      Request: Page,
      Result: Row,
      execute: ({ limit, sequence }) => sql`
          SELECT ${columns} FROM audit_checkpoints WHERE audit_checkpoints.sequence > ${sequence}::bigint
          ORDER BY audit_checkpoints.sequence LIMIT ${limit}`
    })
    const selectLatest = SqlSchema.findOneOption({
      Request: Schema.Void,
      Result: Row,
      execute: () => sql`SELECT ${columns} FROM audit_checkpoints ORDER BY audit_checkpoints.sequence DESC LIMIT 1`
    })

    return {
      insert: ({ hash, jws, keyId, sequence, signedAt }: AuditCheckpoint) => sql`
          INSERT INTO audit_checkpoints (sequence, hash, signed_at, key_id, jws)
          VALUES (${sequence}::bigint, decode(${hash}, 'hex'), ${DateTime.toDateUtc(signedAt)}, ${keyId}, ${jws})`,
      /** Checkpoints below a sequence, the newest first. */
      list: Effect.fn("CheckpointRepository.list")((below: number, limit: number) =>
        Effect.orDie(selectBelow({ sequence: below, limit }))
      ),
      /** Checkpoints above a sequence, the oldest first. */
      above: Effect.fn("CheckpointRepository.above")((sequence: number, limit: number) =>
        Effect.orDie(selectAbove({ sequence, limit }))
      ),
      latest: Effect.orDie(selectLatest(undefined))
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
