import { Clock, Context, DateTime, Effect, Latch, Layer, Option, Schema, Semaphore, Stream } from "effect"
import { type HttpServerRequest } from "effect/http"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { Notifications } from "../../platform/database/notifications.ts"
import { eventStream, LiveAuthorization, OpenStreams, type ServerSentEvent } from "../../platform/http/event-stream.ts"
import { ProofRepository } from "../chain/proof-repository.ts"
import { AuditEntry, type AuditFilter, chainGrowth } from "../log/domain.ts"
import { FeedRepository } from "./repository.ts"

/** The most entries that are read from the database at once; one may have 64 KiB. */
const atOnce = 500
/** The most that are read for one follower alone: it keeps them until its client takes them. */
const missedAtOnce = 50
/** How often the head is looked at where no notification says that it has moved. */
const idlePoll = "100 millis"
/** How many batches the slowest follower may be behind; what it misses then it reads from the database. */
const batchesKept = 8
/** How long a page is looked for among entries that it does not have; the next page continues there. */
const longestScanMillis = 1000
/** How many followers read what they missed at the same time. */
const catchingUpAtOnce = 2

type Encode = (entry: AuditEntry) => ServerSentEvent

/** An entry as the reader has it: what it is encoded to is the same for all followers. */
class FeedItem {
  readonly entry: AuditEntry
  readonly sequence: number
  private readonly encoded = new Map<Encode, ServerSentEvent>()

  constructor(entry: AuditEntry) {
    this.entry = entry
    this.sequence = entry.sequence ?? 0
  }

  as(encode: Encode): ServerSentEvent {
    let event = this.encoded.get(encode)
    if (event === undefined) this.encoded.set(encode, (event = encode(this.entry)))
    return event
  }
}

/** Entries in the order of the chain: all behind `after`, up to `upTo`. */
interface Batch {
  readonly after: number
  readonly upTo: number
  readonly entries: ReadonlyArray<FeedItem>
}

/** Which entries a follower gets, and how they are written. */
export interface Selection {
  /** Conditions that the database checks where entries are read for this follower alone. */
  readonly filter: AuditFilter
  matches(entry: AuditEntry): boolean
  /** The same function for all followers of a kind. */
  readonly encode: Encode
}

/** Entries in the order of the chain, and the sequence up to which all were read. */
export interface FeedPage {
  readonly entries: ReadonlyArray<AuditEntry>
  readonly upTo: number
}

/** The log as a stream of new entries. */
export class AuditFeed extends Context.Service<AuditFeed>()("app/audit/AuditFeed", {
  make: Effect.gen(function* () {
    const catchUp = yield* Semaphore.make(catchingUpAtOnce)
    const database = yield* Database
    const proof = yield* ProofRepository
    const repository = yield* FeedRepository
    const notifications = yield* Notifications
    const streams = yield* OpenStreams

    const growth = yield* Latch.make()
    yield* notifications.subscribe(chainGrowth, { onMessage: () => growth.open, onGap: growth.open })

    const waits = Effect.logDebug("The audit feed waits for the database")
    const read = (after: number, upTo: number): Effect.Effect<Batch> =>
      Effect.map(database.read("all", repository.between(after, upTo, {})), (entries) => ({
        after,
        upTo,
        entries: entries.map((entry) => new FeedItem(entry))
      }))

    // The one reader of this replica: its followers filter in memory what it has read and encoded once. It stops when the
    // last of them leaves.
    const batches = yield* Stream.suspend(() => {
      let position: number | undefined
      const next = Effect.gen(function* () {
        yield* growth.close
        const head = yield* repository.head
        if (position !== undefined && head <= position) {
          yield* Effect.race(growth.await, Effect.sleep(idlePoll))
          return []
        }
        const batch: Batch =
          position === undefined
            ? { after: head, upTo: head, entries: [] }
            : yield* read(position, Math.min(head, position + atOnce))
        position = batch.upTo
        return [batch]
      }).pipe(Effect.catchCause(() => waits.pipe(Effect.andThen(Effect.sleep(idlePoll)), Effect.as([]))))
      return Stream.flatMap(Stream.fromEffectRepeat(next), Stream.fromIterable)
    }).pipe(Stream.share({ capacity: batchesKept, strategy: "sliding", replay: 1 }))

    const follow = Effect.fn("AuditFeed.follow")(function* (selection: Selection, after: number | undefined) {
      const { encode, filter } = selection
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
            const end = Math.min(first - 1 + missedAtOnce, upTo)
            const entries = yield* database.read(scope, repository.between(first - 1, end, filter))
            last = end
            return [entries.filter((entry) => selection.matches(entry)).map(encode), Option.some(undefined)] as const
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
              selection.matches(entry)
          )
          last = Math.max(last, batch.upTo)
          return Stream.fromIterable(wanted.map((item) => item.as(encode)))
        })
        return last < batch.after ? Stream.concat(missed(batch.after), fresh) : fresh
      }

      return held(Stream.flatMap(batches, ofBatch))
    })

    /** Reads in pieces until there are enough entries, the head is reached or some time has passed. */
    const page = Effect.fn("AuditFeed.page")(function* (
      { filter, matches }: Omit<Selection, "encode">,
      after: number,
      limit: number
    ) {
      const scope = scopeOf(yield* CurrentPrincipal)
      const head = yield* repository.head
      const until = (yield* Clock.currentTimeMillis) + longestScanMillis
      const found: Array<AuditEntry> = []
      let upTo = Math.min(after, head)
      let now = 0
      while (upTo < head && found.length < limit && now < until) {
        const first = (yield* proof.next(upTo)) ?? head + 1
        if (first > head) return { entries: found, upTo: head } satisfies FeedPage
        const end = Math.min(first - 1 + (found.length === 0 && upTo === after ? limit : atOnce), head)
        const entries = (yield* database.read(scope, repository.between(first - 1, end, filter))).filter(matches)
        found.push(...entries)
        upTo = end
        now = yield* Clock.currentTimeMillis
      }
      const entries = found.slice(0, limit)
      return { entries, upTo: found.length > limit ? (entries.at(-1)?.sequence ?? upTo) : upTo } satisfies FeedPage
    })

    return {
      /**
       * The entries that the caller may see and the selection has, in the order of the chain: those behind `after`, or from
       * now on.
       */
      follow,
      /** At most `limit` of these behind `after`; the next page is behind `upTo`. */
      page,
      /** The entries between two sequences (the first excluded) of all tenants, in the order of the chain. */
      between: (after: number, upTo: number) =>
        Effect.map(read(after, upTo), ({ entries }) => entries.map(({ entry }) => entry)),
      head: repository.head,
      /** Whether retention has dropped nothing behind a sequence. */
      hasAllBehind: Effect.fn("AuditFeed.hasAllBehind")(function* (sequence: number) {
        const first = (yield* proof.next(0)) ?? (yield* repository.head) + 1
        return sequence + 1 >= first
      })
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

/** The entries that a filter lets through, as lists show them. */
export const entrySelection = (filter: AuditFilter): Selection => ({
  filter,
  matches: (entry) => matches(filter, entry),
  encode: eventOf
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
    return eventStream(yield* feed.follow(entrySelection(filter), after), revoked)
  })
})
