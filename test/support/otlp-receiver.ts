import { Effect, Queue, Schema, SchemaTransformation } from "effect"
import { createServer, type IncomingHttpHeaders, type IncomingMessage } from "node:http"
import type { AddressInfo } from "node:net"
import { gunzipSync } from "node:zlib"

// OTLP wraps every value in an object whose one member names its type.
const AnyValue = Schema.Record(Schema.String, Schema.Unknown).pipe(
  Schema.decodeTo(
    Schema.Unknown,
    SchemaTransformation.transform<unknown, Record<string, unknown>>({
      decode: (wrapped) => Object.values(wrapped)[0],
      encode: (value) => ({ value })
    })
  )
)
const Attributes = Schema.Array(Schema.Struct({ key: Schema.String, value: AnyValue })).pipe(
  Schema.decodeTo(
    Schema.Record(Schema.String, Schema.Unknown),
    SchemaTransformation.transform<
      Record<string, unknown>,
      ReadonlyArray<{ readonly key: string; readonly value: unknown }>
    >({
      decode: (pairs) => Object.fromEntries(pairs.map(({ key, value }) => [key, value])),
      encode: (attributes) => Object.entries(attributes).map(([key, value]) => ({ key, value }))
    })
  )
)
const Resource = Schema.Struct({ attributes: Attributes })

const Span = Schema.Struct({
  traceId: Schema.String,
  spanId: Schema.String,
  parentSpanId: Schema.optionalKey(Schema.String),
  name: Schema.String,
  kind: Schema.Number,
  attributes: Attributes,
  status: Schema.Struct({ code: Schema.Number, message: Schema.optionalKey(Schema.String) }),
  events: Schema.Array(Schema.Struct({ name: Schema.String, attributes: Attributes }))
})

const LogRecord = Schema.Struct({
  severityText: Schema.optionalKey(Schema.String),
  body: AnyValue,
  attributes: Attributes,
  traceId: Schema.optionalKey(Schema.String),
  spanId: Schema.optionalKey(Schema.String)
})

const Points = Schema.optionalKey(
  Schema.Struct({ dataPoints: Schema.Array(Schema.Struct({ attributes: Attributes })) })
)
const Metric = Schema.Struct({
  name: Schema.String,
  unit: Schema.optionalKey(Schema.String),
  sum: Points,
  gauge: Points,
  histogram: Points
})

const TracesRequest = Schema.Struct({
  resourceSpans: Schema.Array(
    Schema.Struct({ resource: Resource, scopeSpans: Schema.Array(Schema.Struct({ spans: Schema.Array(Span) })) })
  )
})
const LogsRequest = Schema.Struct({
  resourceLogs: Schema.Array(
    Schema.Struct({
      resource: Resource,
      scopeLogs: Schema.Array(Schema.Struct({ logRecords: Schema.Array(LogRecord) }))
    })
  )
})
const MetricsRequest = Schema.Struct({
  resourceMetrics: Schema.Array(
    Schema.Struct({ resource: Resource, scopeMetrics: Schema.Array(Schema.Struct({ metrics: Schema.Array(Metric) })) })
  )
})

const decoded = <S extends Schema.Codec<unknown, unknown>>(schema: S) =>
  Schema.decodeUnknownSync(Schema.fromJsonString(schema))

/** One export as it came in; `body` is inflated. */
export interface OtlpExport {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}

/** `"silent"` takes exports and never answers, `"dripping"` never ends its answer, `"busy"` asks to come again in an hour. */
export type OtlpAnswer = number | "silent" | "dripping" | "busy"

/**
 * A collector on loopback that speaks OTLP/HTTP with JSON. `take` waits for the next export; the rest reads what has come
 * in so far, which is everything once the telemetry layer is closed.
 */
export const makeOtlpReceiver = (answer: OtlpAnswer = 200) =>
  Effect.gen(function* () {
    const exports: Array<OtlpExport> = []
    const queue = yield* Queue.unbounded<OtlpExport>()
    const server = createServer((request, response) => {
      void bodyOf(request).then((body) => {
        const received = { path: request.url ?? "", headers: request.headers, body }
        exports.push(received)
        Queue.offerUnsafe(queue, received)
        if (answer === "silent") return
        if (answer === "busy") return void response.writeHead(503, { "retry-after": "3600" }).end()
        if (answer === "dripping") {
          response.writeHead(200, { "content-type": "application/json" })
          const drip = setInterval(() => response.write(" "), 50)
          return void response.once("close", () => clearInterval(drip))
        }
        response.writeHead(request.headers["content-type"] === "application/json" ? answer : 415, {
          "content-type": "application/json"
        })
        response.end("{}")
      })
    })
    yield* Effect.acquireRelease(
      Effect.callback<void>((resume) => {
        server.listen(0, "127.0.0.1", () => resume(Effect.void))
      }),
      () =>
        Effect.callback<void>((resume) => {
          server.close(() => resume(Effect.void))
          server.closeAllConnections()
        })
    )
    const bodies = (path: string) => exports.filter((received) => received.path === path).map(({ body }) => body)
    const traces = () => bodies("/v1/traces").flatMap((body) => decoded(TracesRequest)(body).resourceSpans)
    const logs = () => bodies("/v1/logs").flatMap((body) => decoded(LogsRequest)(body).resourceLogs)
    const metrics = () => bodies("/v1/metrics").flatMap((body) => decoded(MetricsRequest)(body).resourceMetrics)
    return {
      endpoint: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
      take: Queue.take(queue),
      exports: (): ReadonlyArray<OtlpExport> => exports,
      /** Every byte of every export as text, headers included. */
      everything: () => JSON.stringify(exports),
      resources: () => [...traces(), ...logs(), ...metrics()].map(({ resource }) => resource.attributes),
      spans: () => traces().flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
      logs: () => logs().flatMap(({ scopeLogs }) => scopeLogs.flatMap(({ logRecords }) => logRecords)),
      metrics: () =>
        metrics()
          .flatMap(({ scopeMetrics }) => scopeMetrics.flatMap((scope) => scope.metrics))
          .map(({ name, unit, sum, gauge, histogram }) => ({
            name,
            unit,
            points: (sum ?? gauge ?? histogram)?.dataPoints.map(({ attributes }) => attributes) ?? []
          }))
    }
  })

export type OtlpReceiver = Effect.Success<ReturnType<typeof makeOtlpReceiver>>

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(Buffer.from(chunk))
  const body = Buffer.concat(chunks)
  return (request.headers["content-encoding"] === "gzip" ? gunzipSync(body) : body).toString("utf8")
}
