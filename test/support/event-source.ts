import { Effect, type Scope } from "effect"
import { type Answer, type TestService } from "./service.ts"
import { eventually } from "./waiting.ts"

/** One event as it came. */
export interface ReceivedEvent {
  readonly id: string | undefined
  readonly event: string
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into events of every shape
  readonly data: any
}

/** A stream of events that is being listened to. */
export interface EventSource {
  readonly status: number
  readonly headers: Headers
  readonly events: ReadonlyArray<ReceivedEvent>
  readonly comments: ReadonlyArray<string>
  /** Whether the service has ended the stream, cleanly or not. */
  readonly ended: () => "cleanly" | "broken" | undefined
  /** Waits until that many events have come. */
  until(count: number): Effect.Effect<ReadonlyArray<ReceivedEvent>>
  /** Goes away without a word. */
  readonly leave: Effect.Effect<void>
}

const fieldsOf = (block: string): ReadonlyArray<readonly [string, string]> =>
  block.split("\n").map((line) => {
    const colon = line.indexOf(":")
    return [line.slice(0, colon), line.slice(colon + 1).trimStart()] as const
  })

/** Listens to Server-Sent Events until the scope closes, as the service account when no headers are given. */
export const listenTo = (
  service: Pick<TestService["Service"], "url" | "serviceKey">,
  path: string,
  headers: Record<string, string> = {}
): Effect.Effect<EventSource, never, Scope.Scope> =>
  Effect.gen(function* () {
    const controller = yield* Effect.acquireRelease(
      Effect.sync(() => new AbortController()),
      (controller) => Effect.sync(() => controller.abort())
    )
    const events: Array<ReceivedEvent> = []
    const comments: Array<string> = []
    let end: "cleanly" | "broken" | undefined
    const response = yield* Effect.promise(() =>
      fetch(`${service.url}${path}`, {
        signal: controller.signal,
        headers: { "x-api-key": service.serviceKey, ...headers }
      })
    )
    const read = async () => {
      let text = ""
      for await (const chunk of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        text += chunk
        const blocks = text.split("\n\n")
        text = blocks.pop() ?? ""
        for (const block of blocks) {
          const fields = new Map(fieldsOf(block))
          if (fields.has("")) comments.push(fields.get("") ?? "")
          else {
            events.push({
              id: fields.get("id"),
              event: fields.get("event") ?? "message",
              data: JSON.parse(fields.get("data") ?? "null")
            })
          }
        }
      }
    }
    read().then(
      () => (end = "cleanly"),
      () => (end = "broken")
    )
    return {
      status: response.status,
      headers: response.headers,
      events,
      comments,
      ended: () => end,
      until: (count) =>
        Effect.as(
          eventually(
            Effect.sync(() => events.length),
            (length) => length >= count
          ),
          events
        ),
      leave: Effect.sync(() => controller.abort())
    }
  })

/** The value of a gauge in Prometheus' text. */
export const gaugeIn = (metrics: Answer, name: string): number =>
  Number(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\d+)$`, "m").exec(metrics.text)?.[1])
