import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { AuditEntryId } from "../log/domain.ts"
import { idOf, isOfHere, nothing, type StoredEntry, storedColumns } from "./chain-repository.ts"

/** A link as stored, with its entry when that is where the link says. */
export interface LinkedRow {
  readonly sequence: number
  readonly entryId: string
  readonly previousHash: string
  readonly hash: string
  /** Undefined when there is no such entry. */
  readonly entry: StoredEntry | undefined
}

const Head = Schema.Struct({
  sequence: Schema.Int,
  hash: Schema.String,
  linked: Schema.String,
  /** The newest link; that of the head unless the log was tampered with. */
  newest: Schema.Int
})

/** A place among the entries in the order of their time; the time is text that PostgreSQL reads back exactly. */
export interface EntryPlace {
  readonly occurredAt: string
  readonly id: string
}

const Strangers = Schema.Struct({
  lastAt: Schema.NullOr(Schema.String),
  lastId: Schema.NullOr(Schema.String),
  stranger: Schema.NullOr(AuditEntryId)
})

export const Retirement = Schema.Struct({ month: Schema.String, lastSequence: Schema.Int, jws: Schema.String })
export type Retirement = typeof Retirement.Type

/** What verification reads of the log; run it where every tenant's rows are seen. */
export class ProofRepository extends Context.Service<
  ProofRepository,
  {
    readonly head: Effect.Effect<typeof Head.Type>
    /** The seconds that the next entry has waited for its link; 0 when none waits. */
    readonly waitingSeconds: Effect.Effect<number>
    /** The links behind a sequence, up to another, in order, with their entries; as many as the caller can hold. */
    links(behind: number, upTo: number): Effect.Effect<ReadonlyArray<LinkedRow>>
    /** The oldest sequence behind one; undefined when there is none. */
    next(behind: number): Effect.Effect<number | undefined>
    /** The time of the entry that a link names, as PostgreSQL writes it. */
    timeOf(sequence: number): Effect.Effect<Option.Option<string>>
    /** An entry by its id, at whatever time. */
    entryOf(entryId: string): Effect.Effect<Option.Option<StoredEntry>>
    /**
     * Looks at `limit` entries behind a place: where it came to (none at the end), and the first that has no link though
     * every transaction that `linked` sees is linked.
     */
    strangers(
      behind: EntryPlace,
      until: string,
      linked: string,
      limit: number
    ): Effect.Effect<{ readonly last: Option.Option<EntryPlace>; readonly stranger: AuditEntryId | null }>
    /** How many entries a head should have linked. */
    countAt(head: { readonly sequence: number; readonly linked: string }): Effect.Effect<number>
    readonly retirements: Effect.Effect<ReadonlyArray<Retirement>>
  }
>()("app/audit/ProofRepository") {
  static readonly layer = Layer.effect(
    ProofRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const columns = sql.literal(storedColumns)

      const head = SqlSchema.findOne({
        Request: Schema.Void,
        Result: Head,
        execute: () => sql`
          SELECT sequence::double precision AS sequence, encode(hash, 'hex') AS hash,
            CASE WHEN ${isOfHere(sql)} THEN linked::text ELSE ${nothing} END AS linked,
            coalesce((SELECT max(l.sequence) FROM audit_links l), 0)::double precision AS newest
          FROM audit_chain`
      })
      const waiting = SqlSchema.findOne({
        Request: Schema.Void,
        Result: Schema.Struct({ seconds: Schema.Finite }),
        execute: () => sql`
          SELECT coalesce((
            SELECT extract(epoch FROM clock_timestamp() - e.occurred_at)::double precision FROM audit_entries e
            WHERE e.transaction_id >= pg_snapshot_xmax(c.linked)
              AND e.transaction_id < pg_snapshot_xmax(pg_current_snapshot())
              AND (c.passed_entry IS NULL OR (e.transaction_id, e.id) > (c.passed_transaction, c.passed_entry))
              AND NOT EXISTS (SELECT FROM audit_links l WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at)
            ORDER BY e.transaction_id, e.id LIMIT 1), 0) AS seconds
          FROM audit_chain c`
      })
      const next = SqlSchema.findOne({
        Request: Schema.Int,
        Result: Schema.Struct({ sequence: Schema.NullOr(Schema.Int) }),
        execute: (behind) => sql`
          SELECT min(sequence)::double precision AS sequence FROM audit_links WHERE audit_links.sequence > ${behind}::bigint`
      })
      const timeOf = SqlSchema.findOneOption({
        Request: Schema.Int,
        Result: Schema.Struct({ at: Schema.String }),
        execute: (sequence) =>
          sql`SELECT occurred_at::text AS at FROM audit_links WHERE sequence = ${sequence}::bigint LIMIT 1`
      })
      const Window = Schema.Struct({
        occurredAt: Schema.String,
        id: Schema.String,
        until: Schema.String,
        linked: Schema.String,
        limit: Schema.Int
      })
      const strangers = SqlSchema.findOne({
        Request: Window,
        Result: Strangers,
        execute: ({ id, limit, linked, occurredAt, until }) => sql`
          WITH looked AS MATERIALIZED (
            SELECT id, occurred_at, transaction_id FROM audit_entries
            WHERE (occurred_at, id) > (${occurredAt}::timestamptz, ${id}::uuid) AND occurred_at <= ${until}::timestamptz
            ORDER BY occurred_at, id LIMIT ${limit}
          ), last AS (SELECT occurred_at, id FROM looked ORDER BY occurred_at DESC, id DESC LIMIT 1)
          SELECT (SELECT occurred_at::text FROM last) AS last_at, (SELECT id FROM last) AS last_id,
            (SELECT e.id FROM looked e
              WHERE (e.transaction_id IS NULL OR pg_visible_in_snapshot(e.transaction_id, ${linked}::pg_snapshot)
                  OR (e.transaction_id >= pg_snapshot_xmax(pg_current_snapshot()) AND ${linked} <> ${nothing}))
                AND (SELECT l.sequence FROM audit_links l
                  WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at LIMIT 1) IS NULL
              LIMIT 1) AS stranger`
      })
      const count = SqlSchema.findOne({
        Request: Schema.Struct({ linked: Schema.String, sequence: Schema.Int }),
        Result: Schema.Struct({ entries: Schema.Int }),
        execute: ({ linked, sequence }) => sql`
          SELECT audit_count_entries(${linked}::pg_snapshot, ${sequence}::bigint)::double precision AS entries`
      })
      const retirements = SqlSchema.findAll({
        Request: Schema.Void,
        Result: Retirement,
        execute: () => sql`
          SELECT month, last_sequence::double precision AS last_sequence, jws FROM audit_retirements ORDER BY month`
      })

      return ProofRepository.of({
        head: Effect.orDie(head(undefined)),
        waitingSeconds: waiting(undefined).pipe(
          Effect.map(({ seconds }) => Math.max(0, seconds)),
          Effect.orDie
        ),
        // Rows are read by hand: a schema would take longer than the hashing.
        links: Effect.fn("ProofRepository.links")((behind, upTo) =>
          sql`
            SELECT l.sequence::double precision, l.entry_id, encode(l.previous_hash, 'hex'), encode(l.hash, 'hex'), e.*
            FROM audit_links l LEFT JOIN LATERAL (
              SELECT ${columns} FROM audit_entries e WHERE e.id = l.entry_id AND e.occurred_at = l.occurred_at LIMIT 1
            ) e ON true
            WHERE l.sequence > ${behind}::bigint AND l.sequence <= ${upTo}::bigint ORDER BY l.sequence`.values.pipe(
            Effect.map((rows) => rows.map(linkedRow)),
            Effect.orDie
          )
        ),
        next: Effect.fn("ProofRepository.next")((behind) =>
          next(behind).pipe(
            Effect.map(({ sequence }) => sequence ?? undefined),
            Effect.orDie
          )
        ),
        timeOf: Effect.fn("ProofRepository.timeOf")((sequence) =>
          Effect.orDie(
            Effect.map(
              timeOf(sequence),
              Option.map(({ at }) => at)
            )
          )
        ),
        entryOf: Effect.fn("ProofRepository.entryOf")((entryId) =>
          sql`SELECT ${columns} FROM audit_entries e WHERE e.id = ${entryId}::uuid LIMIT 1`.values.pipe(
            Effect.map(([row]) => Option.fromNullishOr(row)),
            Effect.orDie
          )
        ),
        strangers: Effect.fn("ProofRepository.strangers")((behind, until, linked, limit) =>
          strangers({ ...behind, until, linked, limit }).pipe(
            Effect.map(({ lastAt, lastId, stranger }) => ({
              last:
                lastAt === null || lastId === null ? Option.none() : Option.some({ occurredAt: lastAt, id: lastId }),
              stranger
            })),
            Effect.orDie
          )
        ),
        countAt: Effect.fn("ProofRepository.countAt")(({ linked, sequence }) =>
          // It grows with the log, but runs over one index alone.
          Effect.andThen(sql`SET LOCAL statement_timeout = '10min'`, count({ linked, sequence })).pipe(
            Effect.map(({ entries }) => entries),
            Effect.orDie
          )
        ),
        retirements: Effect.orDie(retirements(undefined))
      })
    })
  )
}

/** Reads a row of sequence, entry id, previous hash, hash and the columns of the entry. */
export const linkedRow = ([sequence, entryId, previousHash, hash, ...entry]: ReadonlyArray<unknown>): LinkedRow => ({
  sequence: Number(sequence),
  entryId: String(entryId),
  previousHash: String(previousHash),
  hash: String(hash),
  entry: idOf(entry) === undefined ? undefined : entry
})
