import { Effect, Layer, Clock, Context, Metric } from "effect"
import { constVoid } from "effect/Function"
import { HttpRouter, HttpServerResponse } from "effect/http"
import * as PrometheusMetrics from "effect/observability/PrometheusMetrics"
import { monitorEventLoopDelay, performance } from "node:perf_hooks"
import { Settings } from "../settings/settings.ts"
import { scrub } from "./logging.ts"

/** The media type of {@link prometheus}. */
export const prometheusContentType = "text/plain; version=0.0.4; charset=utf-8"

const otherName = "_OTHER"
const knownMethods = new Set(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "QUERY", "TRACE", "CONNECT"])
const durationBoundariesSeconds = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
const maximumSeries = 2000

const defaultRegistry = Context.empty()
const durations = new Map<string, Map<string, Map<number, Metric.Histogram<number>>>>()
let seriesCount = 0
let activeRequests = 0

/**
 * Counts one answered request in `http.server.request.duration`; cheap enough for every request. `route` is the pattern
 * (`/api/agents/:id`), never the path, and undefined when no route matched. Past 2,000 series routes count as `_OTHER`.
 */
export const recordRequest = (
  method: string,
  route: string | undefined,
  status: number,
  durationSeconds: number
): void => {
  const series =
    durations
      .get(route ?? "")
      ?.get(method)
      ?.get(status) ?? makeSeries(knownMethods.has(method) ? method : otherName, route, status)
  series.updateUnsafe(durationSeconds, defaultRegistry)
}

/** Counts a request in `http.server.active_requests`; {@link requestEnded} must follow it once, however it ends. */
export const requestStarted = (): void => {
  activeRequests += 1
}

export const requestEnded = (): void => {
  activeRequests -= 1
}

const makeSeries = (method: string, givenRoute: string | undefined, status: number): Metric.Histogram<number> => {
  const route = seriesCount < maximumSeries ? givenRoute : otherName
  const byMethod = entry(durations, route ?? "", () => new Map<string, Map<number, Metric.Histogram<number>>>())
  const byStatus = entry(byMethod, method, () => new Map<number, Metric.Histogram<number>>())
  return entry(byStatus, status, () => {
    seriesCount += 1
    return Metric.histogram("http.server.request.duration", {
      description: "Duration of HTTP server requests",
      boundaries: durationBoundariesSeconds,
      attributes: {
        "http.request.method": method,
        ...(route === undefined ? {} : { "http.route": route }),
        "http.response.status_code": String(status),
        unit: "s"
      }
    })
  })
}

const entry = <Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value => {
  const found = map.get(key)
  if (found !== undefined) return found
  const made = make()
  map.set(key, made)
  return made
}

interface Source {
  readonly id: string
  readonly unit: string
  readonly description: string
  readonly read: (context: Context.Context<never>) => number
}

const nanosecondsPerSecond = 1e9

/** The event loop since the last reading; readings less than a second apart share one. */
const eventLoop = () => {
  const delay = monitorEventLoopDelay({ samplePerIteration: true })
  let utilization = performance.eventLoopUtilization()
  let reading = { p99Seconds: 0, maximumSeconds: 0, utilization: 0, takenAt: Number.NEGATIVE_INFINITY }
  const read = (context: Context.Context<never>) => {
    const now = Context.get(context, Clock.Clock).currentTimeMillisUnsafe()
    if (Math.abs(now - reading.takenAt) < 1000) return reading
    const current = performance.eventLoopUtilization()
    const since = performance.eventLoopUtilization(current, utilization)
    utilization = current
    reading = {
      p99Seconds: delay.count === 0 ? 0 : delay.percentile(99) / nanosecondsPerSecond,
      maximumSeconds: delay.count === 0 ? 0 : delay.max / nanosecondsPerSecond,
      utilization: since.utilization,
      takenAt: now
    }
    delay.reset()
    return reading
  }
  return { delay, read }
}

const gauges = (read: ReturnType<typeof eventLoop>["read"]): ReadonlyArray<Source> => [
  {
    id: "http.server.active_requests",
    unit: "{request}",
    description: "Active HTTP requests",
    read: () => activeRequests
  },
  { id: "process.memory.usage", unit: "By", description: "Resident memory", read: () => process.memoryUsage.rss() },
  {
    id: "v8js.memory.heap.used",
    unit: "By",
    description: "JavaScript heap in use",
    read: () => process.memoryUsage().heapUsed
  },
  { id: "process.uptime", unit: "s", description: "Time since the process started", read: () => process.uptime() },
  {
    id: "nodejs.eventloop.delay.p99",
    unit: "s",
    description: "Event loop delay, 99th percentile since the last reading",
    read: (context) => read(context).p99Seconds
  },
  {
    id: "nodejs.eventloop.delay.max",
    unit: "s",
    description: "Event loop delay, longest since the last reading",
    read: (context) => read(context).maximumSeconds
  },
  {
    id: "nodejs.eventloop.utilization",
    unit: "1",
    description: "Share of time the event loop was busy since the last reading",
    read: (context) => read(context).utilization
  }
]

const microsecondsPerSecond = 1e6

/** The gauges of the process, each read only at a scrape or an export. */
export const layer: Layer.Layer<never> = Layer.effectDiscard(
  Effect.gen(function* () {
    const context = yield* Effect.context<never>()
    const loop = eventLoop()
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        loop.delay.enable()
        return [
          ...gauges(loop.read).map(({ id, unit, description, read }) =>
            Metric.registerUnsafe(Metric.gauge(id, { description, attributes: { unit } }), context, {
              get: (reader) => ({ value: read(reader) }),
              update: constVoid,
              modify: constVoid
            })
          ),
          ...(["user", "system"] as const).map((mode) =>
            Metric.registerUnsafe(
              Metric.counter("process.cpu.time", {
                description: "Processor time of the process",
                incremental: true,
                attributes: { "cpu.mode": mode, unit: "s" }
              }),
              context,
              {
                get: () => ({ count: process.cpuUsage()[mode] / microsecondsPerSecond, incremental: true }),
                update: constVoid,
                modify: constVoid
              }
            )
          )
        ]
      }),
      (registrations) =>
        Effect.sync(() => {
          loop.delay.disable()
          for (const registration of registrations) registration.remove()
        })
    )
  })
)

const unitSuffixes: Record<string, string> = { s: "seconds", ms: "milliseconds", By: "bytes", "%": "percent" }

const isMonotonic = (snapshot: Metric.Metric.Snapshot) => snapshot.type === "Counter" && snapshot.state.incremental

/** OpenTelemetry's rule: `process.cpu.time` in seconds is `process_cpu_time_seconds_total`. */
const prometheusName = (snapshot: Metric.Metric.Snapshot): string => {
  const unit = snapshot.attributes?.unit ?? snapshot.attributes?.time_unit ?? ""
  const suffix = unitSuffixes[unit] ?? (unit === "1" && snapshot.type === "Gauge" ? "ratio" : "")
  const base = snapshot.id.replace(/[^a-zA-Z0-9_:]+/g, "_")
  const named = suffix === "" || base.endsWith(`_${suffix}`) ? base : `${base}_${suffix}`
  return isMonotonic(snapshot) && !named.endsWith("_total") ? `${named}_total` : named
}

/** Every metric of the process in Prometheus' text format, read now. */
export const prometheus: Effect.Effect<string> = Effect.contextWith((context: Context.Context<never>) =>
  Effect.sync(() => {
    const snapshots = Metric.snapshotUnsafe(context)
    const names = new Map(snapshots.map((snapshot) => [snapshot.id, prometheusName(snapshot)]))
    const rendered = PrometheusMetrics.formatUnsafe(context, { metricNameMapper: (id) => names.get(id) ?? id })
    // A counter that may decrease is a gauge in Prometheus.
    const typed = snapshots
      .filter((snapshot) => snapshot.type === "Counter" && !isMonotonic(snapshot))
      .reduce(
        (text, { id }) => text.replace(`# TYPE ${names.get(id)} counter\n`, `# TYPE ${names.get(id)} gauge\n`),
        rendered
      )
    const leaks = snapshots.some(({ attributes }) =>
      Object.values(attributes ?? {}).some((value) => scrub(value) !== value)
    )
    return leaks ? typed.split("\n").map(scrub).join("\n") : typed
  })
)

/** `GET /metrics` in Prometheus' text format, where `Telemetry:Prometheus:Enabled`. */
export const PrometheusLayer = Layer.unwrap(
  Effect.map(Settings, ({ telemetry }) =>
    telemetry.prometheus.enabled
      ? HttpRouter.add(
          "GET",
          "/metrics",
          Effect.map(prometheus, (text) => HttpServerResponse.text(text, { contentType: prometheusContentType }))
        )
      : Layer.empty
  )
)
