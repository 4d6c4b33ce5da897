import { Context, DateTime, Effect, Layer, type Option, Schema } from "effect"
import { SqlClient, type SqlError, SqlSchema } from "effect/sql"
import { InstantFromDate } from "../../kernel/instant.ts"
import { AuditCheckpoint } from "../log/domain.ts"

const Row = Schema.Struct({ ...AuditCheckpoint.fields, signedAt: InstantFromDate })

/** The signed checkpoints; they are only ever added. */
export class CheckpointRepository extends Context.Service<
  CheckpointRepository,
  {
    insert(checkpoint: AuditCheckpoint): Effect.Effect<void, SqlError.SqlError>
    /** Checkpoints below a sequence, the newest first. */
    list(below: number, limit: number): Effect.Effect<ReadonlyArray<AuditCheckpoint>>
    /** Checkpoints above a sequence, the oldest first. */
    above(sequence: number, limit: number): Effect.Effect<ReadonlyArray<AuditCheckpoint>>
    readonly latest: Effect.Effect<Option.Option<AuditCheckpoint>>
  }
>()("app/audit/CheckpointRepository") {
  static readonly layer = Layer.effect(
    CheckpointRepository,
    Effect.gen(function* () {
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

      return CheckpointRepository.of({
        insert: ({ hash, jws, keyId, sequence, signedAt }) => sql`
          INSERT INTO audit_checkpoints (sequence, hash, signed_at, key_id, jws)
          VALUES (${sequence}::bigint, decode(${hash}, 'hex'), ${DateTime.toDateUtc(signedAt)}, ${keyId}, ${jws})`,
        list: Effect.fn("CheckpointRepository.list")((below, limit) =>
          Effect.orDie(selectBelow({ sequence: below, limit }))
        ),
        above: Effect.fn("CheckpointRepository.above")((sequence, limit) =>
          Effect.orDie(selectAbove({ sequence, limit }))
        ),
        latest: Effect.orDie(selectLatest(undefined))
      })
    })
  )
}
