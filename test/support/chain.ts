import { type PgClient } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { ChainRepository } from "../../src/audit/chain-repository.ts"
import { canonicalEntry, linkHash } from "../../src/audit/link.ts"
import { linkBatch } from "../../src/audit/chainer.ts"
import { storedEntryColumns } from "../../src/audit/chain-repository.ts"
import { sessionLayer } from "../../src/platform/database.ts"
import { type TestDatabase } from "./database.ts"
import { asSuperuser } from "./statements.ts"

/** Inserts entries as the service does, in one statement of the given session; answers nothing. */
export const writeEntries = (sql: PgClient.PgClient, count: number, prefix = "entity") => sql`
  INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, outcome, changes,
    transaction_id)
  SELECT date_trunc('milliseconds', now()), 'UserCreated', 'TrialUser', ${`${prefix} `} || i, 'system', 'system',
    'success', json_build_object('before', null, 'after', json_build_object('number', i))::jsonb, pg_current_xact_id()
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

interface StoredLink {
  readonly sequence: number
  readonly id: string
  readonly entityId: string
  readonly previousHash: string
  readonly hash: string
  readonly members: string
  readonly changes: string | null
}

/** Every link with its entry, in the order of the chain. */
export const chainOf = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) => sql<StoredLink>`
      SELECT l.sequence::integer AS sequence, e.id, e.entity_id AS "entityId", encode(l.previous_hash, 'hex') AS "previousHash",
        encode(l.hash, 'hex') AS hash, ${sql.literal(storedEntryColumns)}
      FROM audit_links l JOIN audit_entries e ON e.id = l.entry_id AND e.occurred_at = l.occurred_at
      ORDER BY l.sequence`
  )

/** What is wrong with a chain, one line for each fault; empty when every link follows from the one before. */
export const faultsOfChain = (chain: ReadonlyArray<StoredLink>): ReadonlyArray<string> =>
  chain.flatMap((link, index) => {
    const previous = index === 0 ? "0".repeat(64) : chain[index - 1]?.hash
    return [
      ...(link.sequence === index + 1 ? [] : [`${link.sequence} stands at ${index + 1}`]),
      ...(link.previousHash === previous ? [] : [`${link.sequence} does not follow`]),
      ...(link.hash === linkHash(canonicalEntry(link, link.sequence), link.previousHash)
        ? []
        : [`${link.sequence} has another hash`])
    ]
  })
