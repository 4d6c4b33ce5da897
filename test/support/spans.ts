import { Context, Effect, Option, Tracer } from "effect"
import * as crypto from "node:crypto"
import { type Answer, type Call, type TestService } from "./service.ts"

/** Notes which spans each trace consists of: what a service did for a request, whatever the clock says. */
export const makeSpans = () => {
  const names = new Map<string, Array<string>>()
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      names.set(span.traceId, [...(names.get(span.traceId) ?? []), span.name])
      return span
    }
  })

  /** What a request made the service do: the names of its spans, in alphabetical order, and its answer. */
  const workOf = Effect.fnUntraced(function* (
    service: TestService["Service"],
    method: string,
    path: string,
    call: Call
  ): Effect.fn.Return<{ readonly answer: Answer; readonly work: ReadonlyArray<string> }> {
    const traceId = crypto.randomUUID().replaceAll("-", "")
    const headers = { ...call.headers, traceparent: `00-${traceId}-00f067aa0ba902b7-01` }
    const answer = yield* service.call(method, path, { ...call, headers })
    return { answer, work: (names.get(traceId) ?? []).toSorted() }
  })

  return { tracer, workOf }
}

/** What is recorded in a span that is sampled. */
export const recordedSpan = (record: (span: Tracer.Span) => void): Readonly<Record<string, unknown>> => {
  const span = new Tracer.NativeSpan({
    name: "test",
    parent: Option.none(),
    annotations: Context.empty(),
    links: [],
    startTime: 0n,
    kind: "client",
    sampled: true
  })
  record(span)
  return Object.fromEntries(span.attributes)
}
