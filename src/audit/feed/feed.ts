import { Context, DateTime, Effect, Layer, Option, Schedule, Schema, Semaphore, Stream } from "effect"
import { type HttpServerRequest } from "effect/http"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { eventStream, LiveAuthorization, OpenStreams, type ServerSentEvent } from "../../platform/http/event-stream.ts"
import { AuditEntry, type AuditFilter } from "../log/domain.ts"
import { FeedRepository } from "./repository.ts"
import { ProofRepository } from "../chain/proof-repository.ts"

/** The most entries that are read from the database at once. */
const atOnce = 5000
/** How many batches the slowest follower may be behind; what it misses then it reads from the database. */
const batchesKept = 8
/** How many followers read what they missed at the same time. */
const catchingUpAtOnce = 2

/** Entries in the order of the chain: all behind `after`, up to `upTo`. */
interface Batch {
  readonly after: number
  readonly upTo: number
  readonly entries: ReadonlyArray<{
    readonly entry: AuditEntry
    readonly sequence: number
    readonly event: ServerSentEvent
  }>
}

/** The log as a stream of new entries. */
export class AuditFeed extends Context.Service<AuditFeed>()("app/audit/AuditFeed", {
  make: Effect.gen(function* () {
    const catchUp = yield* Semaphore.make(catchingUpAtOnce)
    const database = yield* Database
    const proof = yield* ProofRepository
    const repository = yield* FeedRepository
    const streams = yield* OpenStreams

    const waits = Effect.logDebug("The audit feed waits for the database")
    const read = (after: number, upTo: number): Effect.Effect<Batch> =>
      Effect.map(database.transaction("all", repository.between(after, upTo, {})), (entries) => ({
        after,
        upTo,
        entries: entries.map((entry) => ({ entry, sequence: entry.sequence ?? 0, event: eventOf(entry) }))
      }))

    // The one reader of this replica: its followers filter in memory what it has read and encoded once. It stops when the
    // last of them leaves.
    const batches = yield* Stream.suspend(() => {
      let position: number | undefined
      const next = Effect.gen(function* () {
        const head = yield* repository.head
        if (position !== undefined && head <= position) return []
        const batch: Batch =
          position === undefined
            ? { after: head, upTo: head, entries: [] }
            : yield* read(position, Math.min(head, position + atOnce))
        position = batch.upTo
        return [batch]
      }).pipe(Effect.catchCause(() => Effect.as(waits, [])))
      return Stream.flatMap(Stream.fromEffectSchedule(next, Schedule.spaced("100 millis")), Stream.fromIterable)
    }).pipe(Stream.share({ capacity: batchesKept, strategy: "sliding", replay: 1 }))

    const follow = Effect.fn("AuditFeed.follow")(function* (filter: AuditFilter, after: number | undefined) {
      const held = yield* streams.claim
      const principal = yield* CurrentPrincipal
      const scope = scopeOf(principal)
      let last = Math.min(after ?? Number.MAX_SAFE_INTEGER, yield* repository.head)

      /** What the reader no longer has, in pieces; a piece that fails is tried again. */
      const missed = (upTo: number): Stream.Stream<ServerSentEvent> =>
        Stream.paginate(undefined, () => {
          const piece = Effect.gen(function* () {
            const first = last < upTo ? yield* proof.next(last) : undefined
            if (first === undefined || first > upTo) return [[], Option.none()] as const
            const end = Math.min(first - 1 + atOnce, upTo)
            const entries = yield* database.transaction(scope, repository.between(first - 1, end, filter))
            last = end
            return [entries.map(eventOf), Option.some(undefined)] as const
          })
          const patient: typeof piece = Effect.catchCause(catchUp.withPermits(1)(piece), () =>
            waits.pipe(Effect.andThen(Effect.sleep("200 millis")), Effect.andThen(Effect.suspend(() => patient)))
          )
          return patient
        })

      const ofBatch = (batch: Batch): Stream.Stream<ServerSentEvent> => {
        const fresh = Stream.suspend(() => {
          const wanted = batch.entries.filter(
            ({ entry, sequence }) =>
              sequence > last &&
              (principal.tenantId === undefined || entry.tenantId === principal.tenantId) &&
              matches(filter, entry)
          )
          last = Math.max(last, batch.upTo)
          return Stream.fromIterable(wanted.map(({ event }) => event))
        })
        return last < batch.after ? Stream.concat(missed(batch.after), fresh) : fresh
      }

      return held(Stream.flatMap(batches, ofBatch))
    })

    return {
      /**
       * The entries that the caller may see and the filter lets through, in the order of the chain: those behind `after`, or
       * from now on.
       */
      follow
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.mergeAll(FeedRepository.layer, OpenStreams.layer, ProofRepository.layer))
  )
}

/** Whether a filter lets an entry through, as the database would. */
const matches = (filter: AuditFilter, entry: AuditEntry): boolean =>
  (filter.actionType === undefined || entry.actionType === filter.actionType) &&
  (filter.entityType === undefined || entry.entityType === filter.entityType) &&
  (filter.entityId === undefined || entry.entityId === filter.entityId) &&
  (filter.userId === undefined || entry.userId === filter.userId) &&
  (filter.tenantId === undefined || entry.tenantId === filter.tenantId) &&
  (filter.outcome === undefined || entry.outcome === filter.outcome) &&
  (filter.startDate === undefined || DateTime.isGreaterThan(entry.occurredAt, filter.startDate)) &&
  (filter.endDate === undefined || DateTime.isLessThan(entry.occurredAt, filter.endDate))

const encode = Schema.encodeSync(Schema.fromJsonString(AuditEntry.json))

const eventOf = (entry: AuditEntry): ServerSentEvent => ({
  id: String(entry.sequence),
  event: "audit-entry",
  data: encode(entry)
})

/** Answers a client that follows the log, until its leave or the process ends. */
export const entryStream = Effect.gen(function* () {
  const authorization = yield* LiveAuthorization
  const feed = yield* AuditFeed
  return Effect.fnUntraced(function* (
    request: HttpServerRequest.HttpServerRequest,
    filter: AuditFilter,
    after: number | undefined
  ) {
    const revoked = yield* authorization.revoked(request)
    return eventStream(yield* feed.follow(filter, after), revoked)
  })
})
