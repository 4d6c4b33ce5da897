import { Context, Effect, Layer } from "effect"
import { type HttpServerRequest } from "effect/http"
import { AuditFeed, type Selection } from "../../audit/feed/feed.ts"
import { type AuditEntry } from "../../audit/log/domain.ts"
import { pageLimitDefault } from "../../kernel/http/page.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { eventStream, LiveAuthorization, type ServerSentEvent } from "../../platform/http/event-stream.ts"
import { EventsExpired, eventTypes, matchesType, patternsIn, sequenceText, toCloudEvent, typeOf } from "./domain.ts"

/** Which events a caller wants. */
interface Wanted {
  readonly types?: string
  readonly tenantId?: TenantId
}

/** The audit log as CloudEvents. */
export class CloudEvents extends Context.Service<CloudEvents>()("app/events/CloudEvents", {
  make: Effect.gen(function* () {
    const authorization = yield* LiveAuthorization
    const feed = yield* AuditFeed

    const requireAllBehind = Effect.fnUntraced(function* (sequence: number) {
      if (!(yield* feed.hasAllBehind(sequence))) return yield* new EventsExpired({})
    })

    const list = Effect.fn("CloudEvents.list")(function* (
      wanted: Wanted & { readonly after?: string; readonly limit?: number }
    ) {
      const after = sequenceIn(wanted.after)
      if (after !== undefined) yield* requireAllBehind(after)
      const { entries, upTo } = yield* feed.page(selectionOf(wanted), after ?? 0, wanted.limit ?? pageLimitDefault)
      return { items: entries.map(toCloudEvent), nextCursor: sequenceText(upTo) }
    })

    const stream = Effect.fn("CloudEvents.stream")(function* (
      request: HttpServerRequest.HttpServerRequest,
      wanted: Wanted,
      lastEventId: string | undefined
    ) {
      const after = sequenceIn(lastEventId)
      if (after !== undefined) yield* requireAllBehind(after)
      const revoked = yield* authorization.revoked(request)
      return eventStream(yield* feed.follow(selectionOf(wanted), after), revoked)
    })

    return { list, stream, types: eventTypes }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const sequenceIn = (text: string | undefined): number | undefined => (text === undefined ? undefined : Number(text))

const selectionOf = ({ tenantId, types }: Wanted): Selection => {
  const patterns = types === undefined ? undefined : patternsIn(types)
  return {
    filter: tenantId === undefined ? {} : { tenantId },
    matches: (entry) =>
      (tenantId === undefined || entry.tenantId === tenantId) &&
      (patterns === undefined || matchesType(patterns, typeOf(entry))),
    encode: toServerSentEvent
  }
}

const toServerSentEvent = (entry: AuditEntry): ServerSentEvent => ({
  id: sequenceText(entry.sequence ?? 0),
  event: "message",
  data: JSON.stringify(toCloudEvent(entry))
})
