import { Context, type DateTime, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { Dialect } from "../formats/domain.ts"
import { BatchState, BatchTerms, InputTerms, KeptFile, ProviderAnswerJson, StoredBatch } from "./domain.ts"

/** A thing of a tenant; of one principal alone, unless `createdBy` is null. */
const Owned = { tenantId: TenantId, createdBy: Schema.NullOr(Schema.String) }

const AtProvider = Schema.Struct({ ...Owned, provider: Schema.String, providerId: Schema.String })

const Page = Schema.Struct({
  ...Owned,
  dialect: Dialect,
  after: Schema.NullOr(Uuid),
  isUp: Schema.Boolean,
  limit: Schema.Int
})

const FilesPage = Schema.Struct({
  ...Page.fields,
  now: InstantFromDate,
  /** Null for any. */
  purpose: Schema.NullOr(Schema.String),
  /** The providers' own ids of the files that are asked for; null for any. */
  providerIds: Schema.NullOr(Schema.Array(Schema.String))
})

const columnsOfBatch = `b.tenant_id, b.id, b.created_by, b.dialect, b.provider, b.provider_id, b.state, b.terms, b.places,
  b.answer, b.created_at, b.held_until, b.failures`
const columnsOfFile = `f.tenant_id, f.id, f.created_by, f.dialect, f.provider, f.provider_id, f.purpose, f.answer,
  f.terms, f.places, f.created_at, f.expires_at`

const make = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ofBatch = sql.literal(columnsOfBatch)
  const ofFile = sql.literal(columnsOfFile)

  const insertFile = SqlSchema.void({
    Request: Schema.Struct({
      ...KeptFile.fields,
      answer: Schema.fromJsonString(ProviderAnswerJson),
      terms: Schema.NullOr(Schema.fromJsonString(InputTerms))
    }),
    execute: ({ answer, provider, terms, ...file }) => sql`
      INSERT INTO gateway_files (tenant_id, id, created_by, dialect, provider, provider_id, purpose, answer, terms, places,
        created_at, expires_at)
      VALUES (${file.tenantId}, ${file.id}, ${file.createdBy}, ${file.dialect}, ${provider}, ${file.providerId},
        ${file.purpose}, ${answer}::text::jsonb, ${terms}::text::jsonb, ${file.places}, ${file.createdAt},
        ${file.expiresAt})
      ON CONFLICT DO NOTHING`
  })
  const selectFile = SqlSchema.findOneOption({
    Request: AtProvider,
    Result: KeptFile,
    execute: ({ createdBy, provider, providerId, tenantId }) => sql`
      SELECT ${ofFile} FROM gateway_files f
      WHERE f.tenant_id = ${tenantId} AND f.provider = ${provider} AND f.provider_id = ${providerId}
        AND f.created_by = coalesce(${createdBy}, f.created_by)`
  })
  const selectFiles = SqlSchema.findAll({
    Request: FilesPage,
    Result: Schema.Struct({ ...KeptFile.fields, terms: Schema.Null, places: Schema.Null }),
    execute: ({ after, createdBy, dialect, isUp, limit, now, providerIds, purpose, tenantId }) => sql`
      SELECT f.tenant_id, f.id, f.created_by, f.dialect, f.provider, f.provider_id, f.purpose, f.answer, NULL AS terms,
        NULL AS places, f.created_at, f.expires_at
      FROM gateway_files f
      WHERE f.tenant_id = ${tenantId} AND f.created_by = coalesce(${createdBy}, f.created_by)
        AND f.dialect = ${dialect} AND f.purpose = coalesce(${purpose}, f.purpose)
        AND (f.expires_at IS NULL OR f.expires_at > ${now})
        AND (${providerIds}::text[] IS NULL OR f.provider_id = ANY (${providerIds}::text[]))
        AND (${after}::uuid IS NULL OR ${sql.literal(isUp ? "f.id >" : "f.id <")} ${after}::uuid)
      ORDER BY f.id ${sql.literal(isUp ? "" : "DESC")} LIMIT ${limit}`
  })
  const removeFile = SqlSchema.void({
    Request: Schema.Struct({ tenantId: TenantId, id: Uuid }),
    execute: ({ id, tenantId }) => sql`DELETE FROM gateway_files WHERE tenant_id = ${tenantId} AND id = ${id}`
  })
  const insertBatch = SqlSchema.void({
    Request: Schema.Struct({
      ...StoredBatch.fields,
      terms: Schema.fromJsonString(BatchTerms),
      answer: Schema.Null,
      dueAt: InstantFromDate
    }),
    execute: ({ createdAt, createdBy, dialect, dueAt, heldUntil, id, places, provider, state, tenantId, terms }) => sql`
      INSERT INTO gateway_batches (tenant_id, id, created_by, dialect, provider, state, terms, places, created_at,
        held_until, due_at)
      VALUES (${tenantId}, ${id}, ${createdBy}, ${dialect}, ${provider}, ${state}, ${terms}::text::jsonb, ${places},
        ${createdAt}, ${heldUntil}, ${dueAt})`
  })
  const updateState = SqlSchema.findAll({
    Request: Schema.Struct({
      tenantId: TenantId,
      id: Uuid,
      from: Schema.Array(BatchState),
      state: BatchState,
      providerId: Schema.NullOr(Schema.String),
      answer: Schema.NullOr(Schema.fromJsonString(ProviderAnswerJson)),
      dueAt: InstantFromDate,
      failures: Schema.Int,
      closedAt: Schema.NullOr(InstantFromDate)
    }),
    Result: Schema.Struct({ id: Uuid }),
    execute: ({ answer, closedAt, dueAt, failures, from, id, providerId, state, tenantId }) => sql`
      UPDATE gateway_batches SET state = ${state}, provider_id = coalesce(provider_id, ${providerId}),
        answer = coalesce(${answer}::text::jsonb, answer), due_at = ${dueAt}, failures = ${failures},
        closed_at = ${closedAt}
      WHERE tenant_id = ${tenantId} AND id = ${id} AND state = ANY (${from}::text[]) RETURNING id`
  })
  const selectBatch = SqlSchema.findOneOption({
    Request: AtProvider,
    Result: StoredBatch,
    execute: ({ createdBy, provider, providerId, tenantId }) => sql`
      SELECT ${ofBatch} FROM gateway_batches b
      WHERE b.tenant_id = ${tenantId} AND b.provider = ${provider} AND b.provider_id = ${providerId}
        AND b.created_by = coalesce(${createdBy}, b.created_by)`
  })
  const selectBatches = SqlSchema.findAll({
    Request: Page,
    Result: Schema.Struct({ ...StoredBatch.fields, places: Schema.Null }),
    execute: ({ after, createdBy, dialect, isUp, limit, tenantId }) => sql`
      SELECT b.tenant_id, b.id, b.created_by, b.dialect, b.provider, b.provider_id, b.state, b.terms, NULL AS places,
        b.answer, b.created_at, b.held_until, b.failures
      FROM gateway_batches b
      WHERE b.tenant_id = ${tenantId} AND b.created_by = coalesce(${createdBy}, b.created_by) AND b.dialect = ${dialect}
        AND b.answer IS NOT NULL
        AND (${after}::uuid IS NULL OR ${sql.literal(isUp ? "b.id >" : "b.id <")} ${after}::uuid)
      ORDER BY b.id ${sql.literal(isUp ? "" : "DESC")} LIMIT ${limit}`
  })
  const takeDue = SqlSchema.findAll({
    Request: Schema.Struct({ now: InstantFromDate, until: InstantFromDate, limit: Schema.Int }),
    Result: StoredBatch,
    execute: ({ limit, now, until }) => sql`
      UPDATE gateway_batches b SET due_at = ${until}
      FROM (
        SELECT d.tenant_id, d.id FROM gateway_batches d WHERE d.closed_at IS NULL AND d.due_at <= ${now}
        ORDER BY d.due_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
      ) due
      WHERE b.tenant_id = due.tenant_id AND b.id = due.id RETURNING ${ofBatch}`
  })
  /** One that runs stays. */
  const removeBatch = SqlSchema.void({
    Request: Schema.Struct({ tenantId: TenantId, id: Uuid }),
    execute: ({ id, tenantId }) => sql`
      DELETE FROM gateway_batches WHERE tenant_id = ${tenantId} AND id = ${id} AND closed_at IS NOT NULL`
  })
  const purgeFiles = SqlSchema.void({
    Request: Schema.Struct({ now: InstantFromDate }),
    execute: ({ now }) => sql`DELETE FROM gateway_files WHERE expires_at < ${now}`
  })
  const purgeInputs = SqlSchema.void({
    Request: Schema.Struct({ before: InstantFromDate }),
    execute: ({ before }) => sql`DELETE FROM gateway_files WHERE terms IS NOT NULL AND created_at < ${before}`
  })
  const purgeBatches = SqlSchema.void({
    Request: Schema.Struct({ before: InstantFromDate }),
    execute: ({ before }) => sql`DELETE FROM gateway_batches WHERE closed_at < ${before}`
  })

  return {
    insertFile: Effect.fn("BatchesRepository.insertFile")((file: KeptFile) => Effect.orDie(insertFile(file))),
    file: Effect.fn("BatchesRepository.file")((at: typeof AtProvider.Type) => Effect.orDie(selectFile(at))),
    files: Effect.fn("BatchesRepository.files")((page: typeof FilesPage.Type) => Effect.orDie(selectFiles(page))),
    removeFile: Effect.fn("BatchesRepository.removeFile")((file: Pick<KeptFile, "id" | "tenantId">) =>
      Effect.orDie(removeFile(file))
    ),
    insert: Effect.fn("BatchesRepository.insert")((batch: Parameters<typeof insertBatch>[0]) =>
      Effect.orDie(insertBatch(batch))
    ),
    /** Goes on to a state from one of others; whether the batch was in one of these. */
    move: Effect.fn("BatchesRepository.move")((change: Parameters<typeof updateState>[0]) =>
      Effect.map(Effect.orDie(updateState(change)), (moved) => moved.length > 0)
    ),
    batch: Effect.fn("BatchesRepository.batch")((at: typeof AtProvider.Type) => Effect.orDie(selectBatch(at))),
    batches: Effect.fn("BatchesRepository.batches")((page: typeof Page.Type) => Effect.orDie(selectBatches(page))),
    /** Takes batches that are due, which no other replica gets until then. */
    take: Effect.fn("BatchesRepository.take")((due: Parameters<typeof takeDue>[0]) => Effect.orDie(takeDue(due))),
    remove: Effect.fn("BatchesRepository.remove")((batch: Pick<StoredBatch, "id" | "tenantId">) =>
      Effect.orDie(removeBatch(batch))
    ),
    /** Removes files that their providers have removed, and before a moment inputs of batches and batches that had ended. */
    purge: (now: DateTime.Utc, before: DateTime.Utc) =>
      Effect.orDie(
        Effect.all([purgeFiles({ now }), purgeInputs({ before }), purgeBatches({ before })], { discard: true })
      )
  }
})

/** Files and batches that callers have at providers. */
export class BatchesRepository extends Context.Service<BatchesRepository, Effect.Success<typeof make>>()(
  "app/gateway/BatchesRepository"
) {
  static readonly layer = Layer.effect(BatchesRepository, make)
}
