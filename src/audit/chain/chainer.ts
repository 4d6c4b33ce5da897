import { Context, DateTime, Effect, Layer, Option, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { DatabaseConnection } from "../../platform/database/connection.ts"
import { sessionLayer } from "../../platform/database/database.ts"
import { Notifications } from "../../platform/database/notifications.ts"
import { chainGrowth, checkpointEvery } from "../log/domain.ts"
import { AuditRepository, UnlinkedEntries } from "../log/repository.ts"
import { type UnlinkedEntry, ChainRepository, type ChainState, type Link, passStart } from "./chain-repository.ts"
import { CheckpointRepository } from "./checkpoint-repository.ts"
import { isDue, makeCheckpoints } from "./checkpoints.ts"
import { canonicalEntry, linkHash } from "./link.ts"

/** How many entries are linked in one transaction. */
export const batchSize = 1000

/** How many entries found at once are many. */
const many = 10
const pauseAfterMany = "20 millis"
const pauseAfterFew = "45 millis"
/** What other replicas wrote is only found by looking: often for a while, where they have just written. */
const othersPoll = "50 millis"
const othersLooks = 20
const idlePoll = "200 millis"
/** A server that says nothing for so long is taken for gone. */
const patience = "60 seconds"

/** The links of entries behind a head. */
export const linksBehind = (
  head: Pick<ChainState, "sequence" | "hash">,
  entries: ReadonlyArray<UnlinkedEntry>
): ReadonlyArray<Link> => {
  let { hash, sequence } = head
  return entries.map((entry) => {
    const previous_hash = hash
    sequence += 1
    hash = linkHash(canonicalEntry(entry.entry, sequence), previous_hash)
    return { sequence, entry_id: entry.id, place: entry.place, previous_hash, hash }
  })
}

/**
 * Links what waits behind `before`, up to `limit` entries, in one transaction, and answers where the chain has come to. A
 * pass takes one snapshot to its end, batch by batch, so an entry that commits behind others is linked by a later pass and
 * none is missed. `atHead` runs in the transaction, once the head is there.
 */
export const linkBatch = Effect.fn("AuditChainer.linkBatch")(function* <E = never, R = never>(
  before: ChainState,
  limit: number,
  atHead: (head: ChainState) => Effect.Effect<unknown, E, R> = () => Effect.void
) {
  const sql = yield* SqlClient.SqlClient
  const chain = yield* ChainRepository
  const pass = before.pass ?? Option.getOrNull(yield* chain.look(before))
  if (pass === null) return before
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      const entries = yield* chain.candidates({ ...before, pass }, limit)
      const links = linksBehind(before, entries)
      const last = entries.at(-1)
      const head = links.at(-1) ?? before
      const after: ChainState = {
        sequence: head.sequence,
        hash: head.hash,
        ...(last === undefined || entries.length < limit
          ? { linked: pass, pass: null, ...passStart }
          : { linked: before.linked, pass, passedTransaction: last.transaction, passedEntry: last.id })
      }
      if (!(yield* chain.store(before, after, links))) {
        return yield* Effect.die(new Error("The head of the audit chain moved under its only chainer"))
      }
      yield* atHead(after)
      return after
    })
  )
})

const link = Effect.fnUntraced(function* (onGrowth: (sequence: number) => Effect.Effect<void>) {
  const sql = yield* SqlClient.SqlClient
  const chain = yield* ChainRepository
  const checkpoints = yield* makeCheckpoints
  yield* checkpoints.prepare
  const written = yield* UnlinkedEntries
  let last = yield* checkpoints.last
  let state = yield* chain.state
  let looksForOthers = 0

  const signWhenDue = Effect.fnUntraced(function* (head: ChainState) {
    if (!isDue(last, head.sequence, yield* DateTime.now)) return
    last = Option.getOrElse(yield* checkpoints.sign(head), () => last)
  })

  while (true) {
    const isFromHere = yield* written.close
    const room = last.sequence + checkpointEvery - state.sequence
    const after = yield* linkBatch(state, room > 0 ? Math.min(room, batchSize) : batchSize, signWhenDue).pipe(
      Effect.timeout(patience)
    )
    const linked = after.sequence - state.sequence
    state = after
    if (linked > 0) yield* onGrowth(state.sequence)
    if (linked === 0 && isDue(last, state.sequence, yield* DateTime.now)) {
      yield* sql.withTransaction(signWhenDue(state))
    }
    looksForOthers = linked > 0 && !isFromHere ? othersLooks : Math.max(0, looksForOthers - 1)
    if (state.pass !== null) continue
    yield* linked > 0
      ? Effect.sleep(linked < many ? pauseAfterFew : pauseAfterMany)
      : Effect.race(written.await, Effect.sleep(looksForOthers > 0 ? othersPoll : idlePoll))
  }
})

const leadAndLink = Effect.fnUntraced(function* (
  onLead: () => void,
  onGrowth: (sequence: number) => Effect.Effect<void>
) {
  const chain = yield* ChainRepository
  yield* chain.lead.pipe(
    Effect.timeout(patience),
    Effect.repeat({ until: (leads) => leads, schedule: Schedule.spaced("500 millis") })
  )
  onLead()
  return yield* link(onGrowth)
})

/**
 * Links audit entries beside the write path. Of all replicas on a database one is at work: the one whose session holds the
 * lock; when that session ends, however it ends, the next takes over within a second.
 */
export class AuditChainer extends Context.Service<AuditChainer, Record<never, never>>()("app/audit/AuditChainer") {
  static readonly layer = Layer.effect(
    AuditChainer,
    Effect.gen(function* () {
      const { options } = yield* DatabaseConnection
      const notifications = yield* Notifications
      const session = Layer.mergeAll(ChainRepository.layer, CheckpointRepository.layer, AuditRepository.layer).pipe(
        Layer.provideMerge(sessionLayer(options))
      )
      let isDown = false
      yield* leadAndLink(
        () => void (isDown = false),
        (sequence) => notifications.send(chainGrowth, String(sequence))
      ).pipe(
        Effect.provide(Layer.fresh(session)),
        Effect.scoped,
        Effect.catchCause((cause) => {
          const report = isDown ? Effect.logDebug : Effect.logWarning
          isDown = true
          return report("The audit log is not being linked; trying again", cause)
        }),
        Effect.andThen(Effect.sleep("500 millis")),
        Effect.forever,
        Effect.forkScoped
      )
      return AuditChainer.of({})
    })
  ).pipe(Layer.provide(UnlinkedEntries.layer))
}
