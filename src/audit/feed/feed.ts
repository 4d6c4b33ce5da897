import { Context, Effect, Layer, Option, Schedule, Schema, Stream } from "effect"
import { type HttpServerRequest } from "effect/http"
import { LiveAuthorization } from "../../platform/http/live-authorization.ts"
import { CurrentPrincipal } from "../../kernel/principal.ts"
import { Overloaded } from "../../kernel/problems.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { eventStream, type ServerSentEvent } from "../../platform/http/event-stream.ts"
import { AuditEntry, type AuditFilter } from "../log/domain.ts"
import { FeedRepository } from "./repository.ts"
import { ProofRepository } from "../chain/proof-repository.ts"

const atOnce = 1000
const maxFollowers = 1000

/** The log as a stream of new entries. */
export class AuditFeed extends Context.Service<AuditFeed>()("app/audit/AuditFeed", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const proof = yield* ProofRepository
    const repository = yield* FeedRepository

    // All followers on this replica share one query, which stops when the last one leaves.
    const patient = repository.head.pipe(
      Effect.catchCause((cause) => Effect.as(Effect.logDebug("The audit feed waits for the database", cause), 0))
    )
    const heads = yield* Stream.fromEffectSchedule(patient, Schedule.spaced("100 millis")).pipe(
      Stream.share({ capacity: 1, strategy: "sliding", replay: 1 })
    )

    let followers = 0
    const follower = Effect.acquireRelease(
      Effect.sync(() => void followers++),
      () => Effect.sync(() => void followers--)
    )

    const follow = Effect.fn("AuditFeed.follow")(function* (filter: AuditFilter, after: number | undefined) {
      if (followers >= maxFollowers) return yield* new Overloaded({})
      const scope = scopeOf(yield* CurrentPrincipal)
      let last = Math.min(after ?? Number.MAX_SAFE_INTEGER, yield* repository.head)

      /** What is new up to a head, in pieces; a piece that fails is tried again with the next head. */
      const upTo = (head: number): Stream.Stream<ServerSentEvent> =>
        Stream.paginate(undefined, () =>
          Effect.gen(function* () {
            const first = last < head ? yield* proof.next(last) : undefined
            if (first === undefined || first > head) return [[], Option.none()] as const
            const end = Math.min(first - 1 + atOnce, head)
            const entries = yield* database.transaction(scope, repository.between(first - 1, end, filter))
            last = end
            return [entries.map(eventOf), Option.some(undefined)] as const
          }).pipe(
            Effect.catchCause((cause) =>
              Effect.as(Effect.logDebug("The audit feed waits for the database", cause), [[], Option.none()] as const)
            )
          )
        )

      return Stream.unwrap(Effect.as(follower, Stream.flatMap(heads, upTo)))
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

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(Layer.merge(FeedRepository.layer, ProofRepository.layer)))
}

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
