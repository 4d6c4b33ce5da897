import { type PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { ChainRepository, storedColumns, type StoredEntry } from "../../src/audit/chain/chain-repository.ts"
import { linkBatch } from "../../src/audit/chain/chainer.ts"
import { canonicalEntry, linkHash } from "../../src/audit/chain/link.ts"
import { sessionLayer } from "../../src/platform/database/database.ts"
import { type TestDatabase } from "./database.ts"
import { asSuperuser } from "./statements.ts"
import { eventually } from "./waiting.ts"

/** Inserts entries as the service does, a millisecond after each other, in one statement of the given session. */
export const writeEntries = (sql: PgClient.PgClient, count: number, prefix = "entity") => sql`
  INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, outcome, changes,
    transaction_id)
  SELECT date_trunc('milliseconds', now()) - (${count}::integer - i) * interval '1 millisecond', 'UserCreated',
    'TrialUser', ${`${prefix} `} || i, 'system', 'system', 'success', json_build_object('before', null, 'after', json_build_object('number', i))::jsonb, pg_current_xact_id()
  FROM generate_series(1, ${count}::integer) i`

/** The chain's own repository on a session of its own. */
export const chainSession = (database: TestDatabase) =>
  Layer.fresh(ChainRepository.layer.pipe(Layer.provideMerge(sessionLayer(database))))

/** Links everything that waits, by batches of `limit`; answers the head. */
export const linkAll = (database: TestDatabase, limit = 1000) =>
  Effect.gen(function* () {
    const chain = yield* ChainRepository
    let state = yield* linkBatch(yield* chain.state, limit)
    while (state.pass !== null) state = yield* linkBatch(state, limit)
    return state
  }).pipe(Effect.provide(chainSession(database)), Effect.orDie)

interface ChainedEntry {
  readonly sequence: number
  readonly id: string
  readonly entityId: string
  readonly previousHash: string
  readonly hash: string
  readonly entry: StoredEntry
}

/** Every link with its entry, in the order of the chain. */
export const chainOf = (database: TestDatabase): Effect.Effect<ReadonlyArray<ChainedEntry>> =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql`
        SELECT l.sequence::integer, e.id, e.entity_id, encode(l.previous_hash, 'hex'), encode(l.hash, 'hex'),
          ${sql.literal(storedColumns)}
        FROM audit_links l JOIN audit_entries e ON e.id = l.entry_id AND e.occurred_at = l.occurred_at
        ORDER BY l.sequence`.values,
      (rows) =>
        rows.map(([sequence, id, entityId, previousHash, hash, ...entry]) => ({
          sequence: Number(sequence),
          id: String(id),
          entityId: String(entityId),
          previousHash: String(previousHash),
          hash: String(hash),
          entry
        }))
    )
  )

/** What is wrong with a chain, one line for each fault; empty when every link follows from the one before. */
export const faultsOfChain = (chain: ReadonlyArray<ChainedEntry>): ReadonlyArray<string> =>
  chain.flatMap((link, index) => {
    const previous = index === 0 ? "0".repeat(64) : chain[index - 1]?.hash
    return [
      ...(link.sequence === index + 1 ? [] : [`${link.sequence} stands at ${index + 1}`]),
      ...(link.previousHash === previous ? [] : [`${link.sequence} does not follow`]),
      ...(link.hash === linkHash(canonicalEntry(link.entry, link.sequence), link.previousHash)
        ? []
        : [`${link.sequence} has another hash`])
    ]
  })

/** Runs statements as somebody who owns the server: triggers do not fire, so nothing refuses a change of the log. */
export const tampering = <A, E>(database: TestDatabase, statements: (sql: PgClient.PgClient) => Effect.Effect<A, E>) =>
  asSuperuser(database, (sql) =>
    Effect.andThen(
      sql`SET session_replication_role = replica`,
      Effect.suspend(() => statements(sql))
    )
  )

/** Waits until every entry of the database has its link; answers how many there are. */
export const untilAllLinked = (database: TestDatabase) =>
  asSuperuser(database, (sql) =>
    Effect.map(
      eventually(
        sql<{ readonly entries: number; readonly links: number }>`
          SELECT (SELECT count(*)::integer FROM audit_entries) AS entries,
            (SELECT count(*)::integer FROM audit_links) AS links`,
        ([counts]) => counts !== undefined && counts.entries === counts.links
      ),
      ([counts]) => counts?.links ?? 0
    )
  )
