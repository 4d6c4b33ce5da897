import { Effect, Stream } from "effect"
import { eventStream } from "../platform/event-stream.ts"
import { Shutdown } from "../platform/shutdown.ts"
import { type ConfigurationId } from "./domain.ts"
import { ConfigurationWatch } from "./watch.ts"

/** Answers a watching client with Server-Sent Events, until the file or the process ends. */
export const versionStream = Effect.gen(function* () {
  const shutdown = yield* Shutdown
  const watch = yield* ConfigurationWatch
  return (id: ConfigurationId) =>
    Effect.map(watch.open(id), (events) =>
      eventStream(
        Stream.map(events, (event) => ({
          id: String(event.version),
          event: "version",
          data: JSON.stringify(event)
        })),
        shutdown.begun
      )
    )
})
