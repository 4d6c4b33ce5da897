import { Effect, Stream } from "effect"
import { type HttpServerRequest } from "effect/http"
import { Admissions } from "../auth/admissions.ts"
import { eventStream } from "../platform/event-stream.ts"
import { Shutdown } from "../platform/shutdown.ts"
import { type ConfigurationId } from "./domain.ts"
import { ConfigurationWatch } from "./watch.ts"

/** Answers a watching client with Server-Sent Events, until the file, its leave to read it or the process ends. */
export const versionStream = Effect.gen(function* () {
  const admissions = yield* Admissions
  const shutdown = yield* Shutdown
  const watch = yield* ConfigurationWatch
  return (id: ConfigurationId, request: HttpServerRequest.HttpServerRequest) =>
    Effect.gen(function* () {
      const lapsed = yield* admissions.lapse(request)
      const events = yield* watch.open(id)
      return eventStream(
        Stream.map(events, (event) => ({
          id: String(event.version),
          event: "version",
          data: JSON.stringify(event)
        })),
        Effect.raceFirst(shutdown.begun, lapsed)
      )
    })
})
