import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { nilUuid } from "../../kernel/identifier.ts"

/**
 * The members that a link covers beside `sequence`, in canonical order, each with the SQL that reads it of a row `e`. Text and
 * integers are read as they are; times have their microseconds, and no setting of the session changes them.
 */
const members = [
  ["actionType", "e.action_type"],
  ["actorType", "e.actor_type"],
  ["applicationId", "e.application_id"],
  ["changes", "e.changes::text"],
  ["count", "e.count"],
  ["entityId", "e.entity_id"],
  ["entityType", "e.entity_type"],
  ["id", "e.id"],
  ["ipAddress", "e.ip_address"],
  [
    "occurredAt",
    `to_char(e.occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')
      || CASE WHEN e.occurred_at < '0001-01-01Z' THEN ' BC' ELSE '' END`
  ],
  ["outcome", "e.outcome"],
  ["reason", "e.reason"],
  ["tenantId", "e.tenant_id"],
  ["traceId", "e.trace_id"],
  ["userAgent", "e.user_agent"],
  ["userId", "e.user_id"]
] as const

type MemberName = (typeof members)[number][0]

/** The names of the columns of {@link storedColumns}, in their order. */
export const storedMembers: ReadonlyArray<MemberName> = members.map(([name]) => name)

/** The select list of a stored entry `e`. */
export const storedColumns = members.map(([, column]) => column).join(", ")

/** The columns of {@link storedColumns} as the driver reads them. */
export type StoredEntry = ReadonlyArray<unknown>

const idIndex = storedMembers.indexOf("id")

/** The id of a stored entry; undefined when there is no entry. */
export const idOf = (entry: StoredEntry): string | undefined => {
  const id = entry[idIndex]
  return typeof id === "string" ? id : undefined
}

/** The entry as it would be under another id. */
export const withId = (entry: StoredEntry, id: string): StoredEntry => entry.with(idIndex, id)

const Snapshot = Schema.String
const Hash = Schema.String.pipe(Schema.check(Schema.isPattern(/^[0-9a-f]{64}$/u)))

/** Where the chain has come to; the snapshots are in PostgreSQL's own text. */
export const ChainState = Schema.Struct({
  sequence: Schema.Int,
  hash: Hash,
  /** Every entry of the transactions visible in it is linked. */
  linked: Snapshot,
  /** The snapshot of a pass that is not done yet, and the last entry it linked. */
  pass: Schema.NullOr(Snapshot),
  passedTransaction: Schema.String,
  passedEntry: Schema.String
})
export type ChainState = typeof ChainState.Type

/** A chain in the midst of a pass. */
export type Passing = ChainState & { readonly pass: string }

/** The snapshot that sees nothing: of a chain that has not begun, or of one whose database was restored elsewhere. */
export const nothing = "3:3:"

/** Above the numbers of all transactions. */
const noTransaction = "18446744073709551615"

/** Whether the snapshots of the chain are of this server, and not of an older one that the database was dumped from. */
export const isOfHere = (sql: SqlClient.SqlClient) => sql`
  pg_snapshot_xmax(coalesce(pass, linked)) <= pg_snapshot_xmax(pg_current_snapshot())`

/** Where a pass starts. */
export const passStart = {
  passedTransaction: "0",
  passedEntry: nilUuid
} as const

/** An entry that waits for its link; `place` is its time in the text of the session that read it. */
export interface UnlinkedEntry {
  readonly id: string
  readonly place: string
  readonly transaction: string
  readonly entry: StoredEntry
}

/** A link as it is stored; `place` is the entry's time in the text of the session that read it. */
export interface Link {
  readonly sequence: number
  readonly entry_id: string
  readonly place: string
  readonly previous_hash: string
  readonly hash: string
}

/** The chain's own tables, on the session that holds the chainer's lock. */
export class ChainRepository extends Context.Service<ChainRepository>()("app/audit/ChainRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const columns = sql.literal(storedColumns)

    const lead = SqlSchema.findOne({
      Request: Schema.Void,
      Result: Schema.Struct({ leads: Schema.Boolean }),
      execute: () => sql`SELECT pg_try_advisory_lock(hashtext('audit-chainer')) AS leads`
    })
    const state = SqlSchema.findOne({
      Request: Schema.Void,
      Result: ChainState,
      // In a database restored on a younger server the snapshots are of a time to come: there all is looked at again.
      execute: () => sql`
          SELECT sequence::double precision AS sequence, encode(hash, 'hex') AS hash,
            CASE WHEN is_of_here THEN linked::text ELSE ${nothing} END AS linked,
            CASE WHEN is_of_here THEN pass::text END AS pass,
            coalesce(CASE WHEN is_of_here THEN passed_transaction::text END, ${passStart.passedTransaction})
              AS passed_transaction,
            coalesce(CASE WHEN is_of_here THEN passed_entry::text END, ${passStart.passedEntry}) AS passed_entry
          FROM (SELECT *, ${isOfHere(sql)} AS is_of_here FROM audit_chain) chain`
    })
    // The planner would expect to find an entry that is not linked soon, and read all of them where there is none: the last one
    // is found by the index.
    const look = SqlSchema.findOne({
      Request: Snapshot,
      Result: Schema.Struct({ snapshot: Snapshot, waits: Schema.Boolean }),
      execute: (linked) => sql`
          SELECT pg_current_snapshot()::text AS snapshot,
            coalesce((SELECT transaction_id FROM audit_entries
              WHERE transaction_id < CASE WHEN ${linked} = ${nothing} THEN ${noTransaction}::xid8
                ELSE pg_snapshot_xmax(pg_current_snapshot()) END
              ORDER BY transaction_id DESC LIMIT 1) >= pg_snapshot_xmax(${linked}::pg_snapshot), false)
            OR EXISTS (SELECT FROM audit_entries
              WHERE transaction_id = ANY (ARRAY(SELECT pg_snapshot_xip(${linked}::pg_snapshot)))) AS waits`
    })
    const candidates = ({ linked, pass, passedEntry, passedTransaction }: Passing, limit: number) => {
      const seen = sql`pg_visible_in_snapshot(e.transaction_id, ${pass}::pg_snapshot)`
      // What another server wrote may have any number; on this one only what is no older than the pass can have a greater.
      const mayBeLinked =
        linked === nothing
          ? sql`(${seen} OR e.transaction_id >= pg_snapshot_xmax(${pass}::pg_snapshot))`
          : sql`${seen} AND e.transaction_id < pg_snapshot_xmax(${pass}::pg_snapshot)`
      const behind = sql`
          (e.transaction_id, e.id) > (${passedTransaction}::xid8, ${passedEntry}::uuid)
          AND ${mayBeLinked}
          AND NOT EXISTS (SELECT FROM audit_links l WHERE l.entry_id = e.id AND l.occurred_at = e.occurred_at)
          ORDER BY e.transaction_id, e.id LIMIT ${limit}`
      return sql`
          SELECT e.id, e.occurred_at::text, e.transaction_id::text, ${columns} FROM (
            (SELECT * FROM audit_entries e
              WHERE e.transaction_id = ANY (ARRAY(SELECT pg_snapshot_xip(${linked}::pg_snapshot))) AND ${behind})
            UNION ALL
            (SELECT * FROM audit_entries e
              WHERE e.transaction_id >= pg_snapshot_xmax(${linked}::pg_snapshot) AND ${behind})
          ) e ORDER BY e.transaction_id, e.id LIMIT ${limit}`.values
    }

    return {
      /** Whether this session holds the lock of the database's one chainer, taking it where it is free. */
      lead: lead(undefined).pipe(
        Effect.map(({ leads }) => leads),
        Effect.catchTag("NoSuchElementError", Effect.die)
      ),
      state: state(undefined).pipe(Effect.catchTag("NoSuchElementError", Effect.die)),
      /** A snapshot of now when some entry visible in it may have no link yet; none when there is nothing to do. */
      look: ({ linked }: ChainState) =>
        look(linked).pipe(
          Effect.map(({ snapshot, waits }) => (waits ? Option.some(snapshot) : Option.none())),
          Effect.catchTag("NoSuchElementError", Effect.die)
        ),
      /** The entries that `pass` sees and `linked` does not, behind the last that was passed, in the order of the chain. */
      candidates: (state: Passing, limit: number) =>
        Effect.map(candidates(state, limit), (rows) =>
          rows.map(([id, place, transaction, ...entry]) => ({
            id: String(id),
            place: String(place),
            transaction: String(transaction),
            entry
          }))
        ),
      /** Stores links and moves the head from `before` to `after`; false when the head was not there any more. */
      store: (before: ChainState, after: ChainState, links: ReadonlyArray<Link>) =>
        Effect.map(
          sql`
              WITH moved AS (
                UPDATE audit_chain SET sequence = ${after.sequence}, hash = decode(${after.hash}, 'hex'),
                  linked = ${after.linked}::pg_snapshot, pass = ${after.pass}::pg_snapshot,
                  passed_transaction = ${after.passedTransaction}::xid8, passed_entry = ${after.passedEntry}::uuid
                WHERE sequence = ${before.sequence} AND hash = decode(${before.hash}, 'hex')
                RETURNING sequence
              ), stored AS (
                INSERT INTO audit_links (sequence, entry_id, occurred_at, previous_hash, hash)
                SELECT r.sequence, r.entry_id, r.place, decode(r.previous_hash, 'hex'), decode(r.hash, 'hex')
                FROM json_to_recordset(${JSON.stringify(links)}::json) AS r(
                  sequence bigint, entry_id uuid, place timestamptz, previous_hash text, hash text)
                WHERE EXISTS (SELECT FROM moved)
              )
              SELECT sequence FROM moved`,
          (rows) => rows.length === 1
        )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
