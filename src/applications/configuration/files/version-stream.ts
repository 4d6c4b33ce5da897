import { Effect, Stream } from "effect"
import { type HttpServerRequest } from "effect/http"
import { LiveAuthorization } from "../../../platform/http/live-authorization.ts"
import { eventStream } from "../../../platform/http/event-stream.ts"
import { type ConfigurationId } from "../model/domain.ts"
import { ConfigurationWatch } from "./watch.ts"

/** Answers a watching client with Server-Sent Events, until the file, the client's leave or the process ends. */
export const versionStream = Effect.gen(function* () {
  const authorization = yield* LiveAuthorization
  const watch = yield* ConfigurationWatch
  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, id: ConfigurationId) {
    const revoked = yield* authorization.revoked(request)
    const events = Stream.map(yield* watch.open(id), (event) => ({
      id: String(event.version),
      event: "version",
      data: JSON.stringify(event)
    }))
    return eventStream(events, revoked)
  })
})
