import type { Attributes, AttributeValue } from "@opentelemetry/api"
import type { AnyValue, AnyValueMap } from "@opentelemetry/api-logs"
import type { ReadableLogRecord } from "@opentelemetry/sdk-logs"
import type { MetricData, ResourceMetrics } from "@opentelemetry/sdk-metrics"
import type { ReadableSpan, SpanExporter, SpanProcessor } from "@opentelemetry/sdk-trace-base"
import { Clock, Effect, Layer, Option, Redacted, References } from "effect"
import { SecureRandom } from "effect/crypto"
import { isSecretName, layerRedactedNames, scrub } from "./logging.ts"
import * as Metrics from "./metrics.ts"

export interface TelemetryOptions {
  /** Base of the collector's OTLP/HTTP addresses; `/v1/traces`, `/v1/metrics` and `/v1/logs` are appended. */
  readonly endpoint: Option.Option<URL>
  /** Headers for the collector as `name=value` pairs between commas, values percent-encoded (`OTEL_EXPORTER_OTLP_HEADERS`). */
  readonly headers: Option.Option<Redacted.Redacted>
  readonly serviceName: string
  readonly serviceVersion: string
  /** `deployment.environment.name`, such as `Production`. */
  readonly environment: string
}

const exportTimeoutMillis = 5_000
const warningIntervalMillis = 60_000
const queue = {
  maxQueueSize: 8_192,
  maxExportBatchSize: 1_024,
  scheduledDelayMillis: 2_000,
  exportTimeoutMillis: 10_000
}

/**
 * Exports traces, metrics and logs to an OpenTelemetry collector. Without an endpoint the SDK is not loaded and requests
 * are not traced. A collector that is down costs at most the queues (8,192 spans and logs each) and one warning a minute;
 * closing flushes for at most 3 seconds. Goes above the logging layer, whose loggers it keeps.
 */
export const layer = (options: TelemetryOptions): Layer.Layer<never> =>
  Option.match(options.endpoint, {
    // Without a collector no spans are made: half a dozen a request.
    onNone: () => Layer.succeed(References.TracerEnabled, false),
    onSome: (endpoint) => exporting(endpoint, options)
    // The gauges outlive the exporter, whose last export still reads them.
  }).pipe(Layer.provideMerge(Layer.merge(Metrics.layer, layerRedactedNames)))

const exporting = (endpoint: URL, options: TelemetryOptions): Layer.Layer<never> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const [nodeSdk, traces, metrics, logs, traceExporter, metricExporter, logExporter] = yield* Effect.promise(() =>
        Promise.all([
          import("@effect/opentelemetry/NodeSdk"),
          import("@opentelemetry/sdk-trace-base"),
          import("@opentelemetry/sdk-metrics"),
          import("@opentelemetry/sdk-logs"),
          import("@opentelemetry/exporter-trace-otlp-http"),
          import("@opentelemetry/exporter-metrics-otlp-http"),
          import("@opentelemetry/exporter-logs-otlp-http")
        ])
      )
      const report = yield* makeFailureReport(endpoint)
      const headers = parseHeaders(options.headers)
      const target = (path: string) => ({ url: signalUrl(endpoint, path), headers, timeoutMillis: exportTimeoutMillis })
      return nodeSdk.layer(() => ({
        resource: {
          serviceName: options.serviceName,
          serviceVersion: options.serviceVersion,
          attributes: {
            "service.instance.id": SecureRandom.uuidV4Unsafe(),
            "deployment.environment.name": options.environment
          }
        },
        spanProcessor: [
          routeNames,
          new traces.BatchSpanProcessor(
            guarded(new traceExporter.OTLPTraceExporter(target("v1/traces")), scrubSpans, report("traces")),
            queue
          )
        ],
        metricReader: new metrics.PeriodicExportingMetricReader({
          exporter: guarded(
            new metricExporter.OTLPMetricExporter(target("v1/metrics")),
            scrubMetrics,
            report("metrics")
          ),
          exportTimeoutMillis: queue.exportTimeoutMillis
        }),
        logRecordProcessor: new logs.BatchLogRecordProcessor({
          exporter: guarded(new logExporter.OTLPLogExporter(target("v1/logs")), scrubLogs, report("logs")),
          ...queue
        }),
        shutdownTimeout: "3 seconds"
      }))
    })
  )

const signalUrl = (endpoint: URL, path: string): string => {
  const url = new URL(endpoint)
  url.pathname = `${url.pathname.replace(/\/+$/, "")}/${path}`
  return url.href
}

const parseHeaders = (headers: Option.Option<Redacted.Redacted>): Record<string, string> =>
  Object.fromEntries(
    Option.match(headers, { onNone: () => "", onSome: Redacted.value })
      .split(",")
      .map((pair) => /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/.exec(pair))
      .filter((pair) => pair !== null)
      .map(([, name, value]) => [name, percentDecoded(value ?? "")])
  )

const percentDecoded = (value: string): string => {
  try {
    return decodeURIComponent(value)
  } catch {
    return value
  }
}

const serverSpan = 1

/** Semantic conventions want `GET /api/agents/:id`, and the router knows the pattern only once the span has begun. */
const routeNames: SpanProcessor = {
  onStart() {},
  onEnding(span) {
    const route = span.attributes["http.route"]
    if (span.kind === serverSpan && typeof route === "string") span.updateName(`${span.name} ${route}`)
  },
  onEnd() {},
  forceFlush: () => Promise.resolve(),
  shutdown: () => Promise.resolve()
}

type Report = (error: unknown) => void

/** Warns of exports that failed, at most once a minute for all signals together. */
const makeFailureReport = Effect.fnUntraced(function* (endpoint: URL): Effect.fn.Return<(signal: string) => Report> {
  const context = yield* Effect.context<never>()
  const clock = yield* Clock.Clock
  let silentUntil = Number.NEGATIVE_INFINITY
  let failedExports = 0
  return (signal) => (error) => {
    failedExports += 1
    const now = clock.currentTimeMillisUnsafe()
    if (now < silentUntil) return
    silentUntil = now + warningIntervalMillis
    Effect.logWarning("The telemetry collector does not take exports").pipe(
      Effect.annotateLogs({
        signal,
        endpoint: endpoint.origin,
        failedExports,
        reason: error instanceof Error ? `${error.name}: ${error.message}` : String(error)
      }),
      Effect.runForkWith(context)
    )
    failedExports = 0
  }
})

type ExportDone = Parameters<SpanExporter["export"]>[1]

interface Exporter<Batch> {
  export(batch: Batch, done: ExportDone): void
  forceFlush?(): Promise<void>
  shutdown(): Promise<void>
}

/** An exporter of scrubbed batches, whose failures only the report gets. */
const guarded = <Batch>(
  exporter: Exporter<Batch>,
  scrubBatch: (batch: Batch) => Batch,
  report: Report
): Required<Exporter<Batch>> => ({
  export(batch, done) {
    try {
      exporter.export(scrubBatch(batch), (result) => {
        if (result.code !== 0) report(result.error)
        done({ code: 0 })
      })
    } catch (error) {
      report(error)
      done({ code: 0 })
    }
  },
  forceFlush: () => (exporter.forceFlush?.() ?? Promise.resolve()).catch(report),
  shutdown: () => exporter.shutdown().catch(report)
})

const scrubSpans = (spans: Array<ReadableSpan>): Array<ReadableSpan> => spans.map(scrubSpan)

const scrubSpan = (span: ReadableSpan): ReadableSpan => ({
  name: scrub(span.name),
  kind: span.kind,
  spanContext: () => span.spanContext(),
  ...(span.parentSpanContext === undefined ? {} : { parentSpanContext: span.parentSpanContext }),
  startTime: span.startTime,
  endTime: span.endTime,
  status:
    span.status.message === undefined ? span.status : { code: span.status.code, message: scrub(span.status.message) },
  attributes: scrubAttributes(span.attributes),
  links: span.links.map((link) => ({ ...link, attributes: scrubAttributes(link.attributes ?? {}) })),
  events: span.events.map((event) => ({
    ...event,
    name: scrub(event.name),
    attributes: scrubAttributes(event.attributes ?? {})
  })),
  duration: span.duration,
  ended: span.ended,
  resource: span.resource,
  instrumentationScope: span.instrumentationScope,
  droppedAttributesCount: span.droppedAttributesCount,
  droppedEventsCount: span.droppedEventsCount,
  droppedLinksCount: span.droppedLinksCount
})

const scrubAttributes = (attributes: Attributes): Attributes => {
  const clean: Attributes = {}
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined) clean[name] = isSecretName(name) ? "<redacted>" : scrubAttribute(value)
  }
  return clean
}

const isText = (item: unknown): item is string | null | undefined =>
  typeof item === "string" || item === null || item === undefined

const scrubAttribute = (value: AttributeValue): AttributeValue => {
  if (typeof value === "string") return scrub(value)
  if (Array.isArray(value) && value.every(isText))
    return value.map((item) => (typeof item === "string" ? scrub(item) : item))
  return value
}

const scrubLogs = (records: Array<ReadableLogRecord>): Array<ReadableLogRecord> =>
  records.map((record) => ({
    hrTime: record.hrTime,
    hrTimeObserved: record.hrTimeObserved,
    ...(record.spanContext === undefined ? {} : { spanContext: record.spanContext }),
    ...(record.severityText === undefined ? {} : { severityText: record.severityText }),
    ...(record.severityNumber === undefined ? {} : { severityNumber: record.severityNumber }),
    body: scrubAny(record.body),
    ...(record.eventName === undefined ? {} : { eventName: record.eventName }),
    resource: record.resource,
    instrumentationScope: record.instrumentationScope,
    attributes: scrubMap(record.attributes),
    droppedAttributesCount: record.droppedAttributesCount
  }))

const scrubAny = (value: AnyValue): AnyValue => {
  if (typeof value === "string") return scrub(value)
  if (Array.isArray(value)) return value.map(scrubAny)
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value
  return scrubMap(value)
}

const scrubMap = (map: AnyValueMap): AnyValueMap =>
  Object.fromEntries(
    Object.entries(map).map(([name, value]) => [name, isSecretName(name) ? "<redacted>" : scrubAny(value)])
  )

// Every collection has new points. The instrument has the unit already; as an attribute it would be a label.
const scrubMetrics = (batch: ResourceMetrics): ResourceMetrics => {
  for (const { attributes } of batch.scopeMetrics.flatMap(({ metrics }) => metrics).flatMap(pointsOf)) {
    delete attributes.unit
    delete attributes.time_unit
    Object.assign(attributes, scrubAttributes(attributes))
    const status = attributes["http.response.status_code"]
    if (typeof status === "string") attributes["http.response.status_code"] = Number(status)
  }
  return batch
}

const pointsOf = (metric: MetricData): ReadonlyArray<{ readonly attributes: Attributes }> => metric.dataPoints
