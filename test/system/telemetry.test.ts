import { NodeHttpServer } from "@effect/platform-node"
import { PgClient } from "@effect/sql-pg"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger, Metric, Option, Queue, Redacted, Tracer } from "effect"
import { Headers, HttpRouter, HttpServer, HttpServerResponse } from "effect/http"
import { SqlClient } from "effect/sql"
import { TestClock } from "effect/testing"
import { execFile } from "node:child_process"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { fileURLToPath } from "node:url"
import { promisify } from "node:util"
import * as Logging from "../../src/platform/observability/logging.ts"
import * as Metrics from "../../src/platform/observability/metrics.ts"
import * as Telemetry from "../../src/platform/observability/telemetry.ts"
import { makeDatabase } from "../support/database.ts"
import { makeOtlpReceiver } from "../support/otlp-receiver.ts"

const secrets = {
  apiKey: `amk_${"0Ab1Cd2Ef3Gh4".repeat(5)}`,
  headerKey: `amk_${"9Zy8Xw7Vu6Ts5".repeat(5)}`,
  bearer: "b3arer-t0ken-of-a-caller",
  googleKey: "value-of-a-key-of-a-client-of-google",
  cookie: "cookie-value-of-a-session",
  setCookie: "cookie-value-being-set",
  query: "query-value-of-a-key",
  code: "query-value-of-a-code",
  password: "pass-in-an-annotation",
  nested: "secret-in-an-object",
  wrapped: "value-in-redacted",
  thrown: "token-in-a-thrown-message",
  parameter: "parameter-of-a-statement",
  jwt: "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLWJ5dGVz"
}

const Sql = Layer.unwrap(
  Effect.map(makeDatabase, (connection) => PgClient.layer({ ...connection, maxConnections: 1, multiplex: true }))
)

const find = Effect.fn("Things.find")(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT ${id}::text AS id WHERE ${secrets.parameter}::text <> ''`
  yield* Effect.logInfo("found a thing").pipe(Effect.annotateLogs({ thingId: id }))
})

const lose = Effect.gen(function* () {
  yield* Effect.annotateCurrentSpan({
    "app.note": `called with ${secrets.apiKey}`,
    "app.password": secrets.password,
    "app.wrapped": Redacted.make(secrets.wrapped),
    "app.marker": "span-marker"
  })
  yield* Effect.logError(`Bearer ${secrets.bearer} was refused`, { secret: secrets.nested, note: secrets.jwt }).pipe(
    Effect.annotateLogs({
      password: secrets.password,
      wrapped: Redacted.make(secrets.wrapped, { label: "wrapped" }),
      headers: Headers.fromInput({ authorization: `Bearer ${secrets.bearer}`, "x-api-key": secrets.apiKey }),
      deep: { list: [{ clientSecret: secrets.nested }], text: secrets.apiKey },
      marker: "log-marker"
    })
  )
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT ${secrets.parameter}::uuid`.pipe(
    Effect.catchCause((cause) => Effect.logError("statement failed", cause))
  )
  const failure = new Error(`answered {"token":"${secrets.thrown}"}`)
  return yield* Effect.die(new Error(`cannot use ${secrets.apiKey}: marker`, { cause: failure }))
}).pipe(Effect.withSpan("Things.lose"))

const Routes = Layer.mergeAll(
  HttpRouter.add("GET", "/things/:id", (request) =>
    find(request.url.split("/")[2] ?? "").pipe(Effect.as(HttpServerResponse.jsonUnsafe({ ok: true })))
  ),
  HttpRouter.add("POST", "/things/:id/lose", () =>
    lose.pipe(
      Effect.catchCause((cause) => Effect.andThen(Effect.logError("handler died", cause), Effect.failCause(cause)))
    )
  ),
  HttpRouter.add(
    "GET",
    "/cookie",
    HttpServerResponse.text("ok", { headers: { "set-cookie": `am_session=${secrets.setCookie}` } })
  )
)

const Server = HttpRouter.serve(Routes, { disableLogger: true, disableListenLog: true }).pipe(
  Layer.provide(Sql),
  Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" }))
)

const captured = (write: (line: string) => void) => Logger.layer([Logger.map(Logging.json, write)])

const telemetry = (endpoint: URL, options?: { readonly headers?: string }) =>
  Telemetry.layer({
    endpoint: Option.some(endpoint),
    headers: Option.map(Option.fromUndefinedOr(options?.headers), (headers) => Redacted.make(headers)),
    serviceName: "application-manager",
    serviceVersion: "1.2.3",
    environment: "Test"
  })

/** Runs the server with telemetry, hands over its address, and closes both, which flushes. */
const withServer = <A, E, R>(
  Observed: Layer.Layer<never>,
  use: (get: (path: string, init?: RequestInit) => Effect.Effect<Response>) => Effect.Effect<A, E, R>
) =>
  Effect.gen(function* () {
    const { address } = yield* HttpServer.HttpServer
    assert(address._tag === "InetAddressV4")
    return yield* use((path, init) =>
      Effect.promise(async () => {
        const response = await fetch(`http://127.0.0.1:${address.port}${path}`, init ?? {})
        await response.arrayBuffer()
        return response
      })
    )
  }).pipe(Effect.provide(Server.pipe(Layer.provide(Observed))))

describe("telemetry", () => {
  it.live("exports one trace from the caller's span to the statement, with logs and metrics beside it", () =>
    Effect.gen(function* () {
      const receiver = yield* makeOtlpReceiver()
      const lines: Array<string> = []
      const traceId = "0af7651916cd43dd8448eb211c80319c"
      yield* withServer(
        telemetry(receiver.endpoint, { headers: "authorization=Bearer%20of-the-collector, x-scope=tenant%3D1" }).pipe(
          Layer.provideMerge(captured((line) => lines.push(line)))
        ),
        (get) => {
          Metrics.recordRequest("GET", "/things/:id", 200, 0.02)
          return get("/things/42", { headers: { traceparent: `00-${traceId}-b7ad6b7169203331-01` } })
        }
      )

      const spans = receiver.spans()
      const server = spans.find(({ name }) => name === "GET /things/:id")
      const method = spans.find(({ name }) => name === "Things.find")
      const statement = spans.find(({ attributes }) =>
        String(attributes["db.query.text"]).startsWith("SELECT $1::text")
      )
      assert.deepStrictEqual(
        [server, method, statement].map((span) => [span?.traceId, span?.kind]),
        [
          [traceId, 2],
          [traceId, 1],
          [traceId, 3]
        ]
      )
      assert.strictEqual(server?.parentSpanId, "b7ad6b7169203331")
      assert.strictEqual(method?.parentSpanId, server?.spanId)
      assert.strictEqual(statement?.parentSpanId, method?.spanId)
      assert.strictEqual(server?.attributes["http.route"], "/things/:id")
      assert.strictEqual(server?.attributes["http.response.status_code"], 200)

      const record = receiver.logs().find(({ body }) => body === "found a thing")
      assert.strictEqual(record?.traceId, traceId)
      assert.strictEqual(record?.spanId, method?.spanId)
      assert.strictEqual(record?.attributes.thingId, "42")
      const line = JSON.parse(lines.find((line) => line.includes("found a thing")) ?? "{}")
      assert.strictEqual(line.traceId, traceId)

      const durations = receiver.metrics().find(({ name }) => name === "http.server.request.duration")
      assert.strictEqual(durations?.unit, "s")
      assert.deepStrictEqual(
        durations?.points.filter((point) => point["http.route"] === "/things/:id"),
        [{ "http.request.method": "GET", "http.route": "/things/:id", "http.response.status_code": 200 }]
      )
      assert.isTrue(receiver.metrics().some(({ name }) => name === "process.memory.usage"))

      const instances = new Set(receiver.resources().map((resource) => resource["service.instance.id"]))
      assert.strictEqual(instances.size, 1)
      for (const resource of receiver.resources()) {
        assert.strictEqual(resource["service.name"], "application-manager")
        assert.strictEqual(resource["service.version"], "1.2.3")
        assert.strictEqual(resource["deployment.environment.name"], "Test")
      }
      for (const { headers } of receiver.exports()) {
        assert.strictEqual(headers.authorization, "Bearer of-the-collector")
        assert.strictEqual(headers["x-scope"], "tenant=1")
      }
    })
  )

  it.live("sends and prints no secret", () =>
    Effect.gen(function* () {
      const receiver = yield* makeOtlpReceiver()
      const lines: Array<string> = []
      const headers = {
        "x-api-key": secrets.headerKey,
        "x-goog-api-key": secrets.googleKey,
        authorization: `Bearer ${secrets.bearer}`,
        cookie: `am_session=${secrets.cookie}`
      }
      const query = `key=${secrets.query}&%6Bey=${secrets.query}&access_token=${secrets.query}&code=${secrets.code}&page=7`
      yield* withServer(
        telemetry(receiver.endpoint).pipe(Layer.provideMerge(captured((line) => lines.push(line)))),
        (get) =>
          Effect.gen(function* () {
            assert.strictEqual((yield* get(`/things/1/lose?${query}`, { method: "POST", headers })).status, 500)
            assert.strictEqual((yield* get(`/things/${secrets.apiKey}?${query}`, { headers })).status, 200)
            assert.strictEqual((yield* get(`/cookie?${query}`, { headers })).status, 200)
            assert.strictEqual((yield* get(`/nowhere?${query}`, { headers })).status, 404)
          })
      )
      const sent = receiver.everything()
      const printed = lines.join("\n")
      for (const marker of ["span-marker", "log-marker", "cannot use", "Things.lose", "page=7", "type uuid"]) {
        assert.include(sent, marker)
      }
      for (const marker of ["log-marker", "cannot use", "type uuid"]) assert.include(printed, marker)
      for (const [name, secret] of Object.entries(secrets)) {
        assert.notInclude(sent, secret, `${name} reached the collector`)
        assert.notInclude(printed, secret, `${name} reached the log`)
      }
      const lost = receiver.spans().find(({ name }) => name === "POST /things/:id/lose")
      assert.strictEqual(lost?.status.code, 2)
      assert.isTrue(receiver.spans().some(({ name }) => name === "GET"))
    })
  )

  for (const how of ["silent", "dripping", "busy", "down"] as const) {
    it.live(`answers requests and closes while the collector is ${how}`, () =>
      Effect.gen(function* () {
        const receiver = how === "down" ? undefined : yield* makeOtlpReceiver(how)
        const endpoint = receiver?.endpoint ?? new URL(`http://127.0.0.1:${yield* unusedPort}`)
        const statuses = yield* withServer(telemetry(endpoint).pipe(Layer.provide(captured(() => {}))), (get) =>
          Effect.gen(function* () {
            // More than the queues hold: what does not fit is dropped.
            yield* Effect.forEach(Array.from({ length: 20_000 }), () => Effect.withSpan(Effect.void, "Things.idle"))
            return yield* Effect.forEach([1, 2, 3], () => get("/things/1"))
          })
        )
        assert.deepStrictEqual(
          statuses.map(({ status }) => status),
          [200, 200, 200]
        )
        if (receiver !== undefined) assert.isAbove(receiver.exports().length, 0)
      })
    )
  }

  it.effect("warns of failed exports at most once a minute", () =>
    Effect.gen(function* () {
      const receiver = yield* makeOtlpReceiver(400)
      const lines = yield* Queue.unbounded<string>()
      // A full batch is exported at once, and the next one when the collector has answered.
      const fullBatch = Effect.forEach(
        Array.from({ length: 1024 }),
        () => Effect.withSpan(Effect.void, "Things.idle"),
        {
          discard: true
        }
      )
      yield* Effect.gen(function* () {
        yield* fullBatch
        const first = JSON.parse(yield* Queue.take(lines))
        assert.strictEqual(first.level, "Warn")
        assert.strictEqual(first.failedExports, 1)
        assert.strictEqual(first.endpoint, receiver.endpoint.origin)
        yield* fullBatch
        yield* fullBatch
        yield* Effect.forEach([1, 2, 3], () => receiver.take)
        yield* TestClock.adjust("61 seconds")
        yield* fullBatch
        const second = JSON.parse(yield* Queue.take(lines))
        assert.isAbove(second.failedExports, 1)
      }).pipe(
        Effect.provide(
          telemetry(receiver.endpoint).pipe(Layer.provideMerge(captured((line) => Queue.offerUnsafe(lines, line))))
        )
      )
      assert.strictEqual(yield* Queue.size(lines), 0)
    })
  )

  it.effect("keeps Effect's own tracer when no endpoint is set", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* Tracer.Tracer, Tracer.nativeTracer)
    }).pipe(
      Effect.provide(
        Telemetry.layer({
          endpoint: Option.none(),
          headers: Option.none(),
          serviceName: "application-manager",
          serviceVersion: "1.2.3",
          environment: "Test"
        })
      )
    )
  )

  it.live("does not load the OpenTelemetry SDK when no endpoint is set", () =>
    Effect.gen(function* () {
      const { stdout } = yield* Effect.promise(() =>
        promisify(execFile)(process.execPath, ["--input-type=module", "--eval", loadedModules], {
          cwd: fileURLToPath(new URL("../..", import.meta.url))
        })
      )
      assert.strictEqual(stdout, "[]")
    })
  )
})

describe("metrics", () => {
  it.effect("renders requests and the process for Prometheus, read when asked", () =>
    Effect.gen(function* () {
      Metrics.requestStarted()
      Metrics.recordRequest("POST", "/api/agents/:id", 201, 0.005)
      Metrics.recordRequest("POST", "/api/agents/:id", 201, 0.3)
      Metrics.recordRequest("BREW", undefined, 404, 20)
      const busy = yield* Metrics.prometheus
      Metrics.requestEnded()
      const idle = yield* Metrics.prometheus
      const labels = 'http_request_method="POST",http_route="/api/agents/:id",http_response_status_code="201"'
      for (const line of [
        "# TYPE http_server_request_duration_seconds histogram",
        `http_server_request_duration_seconds_bucket{${labels},le="0.005"} 1`,
        `http_server_request_duration_seconds_bucket{${labels},le="0.25"} 1`,
        `http_server_request_duration_seconds_bucket{${labels},le="0.5"} 2`,
        `http_server_request_duration_seconds_bucket{${labels},le="+Inf"} 2`,
        `http_server_request_duration_seconds_sum{${labels}} 0.305`,
        `http_server_request_duration_seconds_count{${labels}} 2`,
        'http_server_request_duration_seconds_count{http_request_method="_OTHER",http_response_status_code="404"} 1',
        "# TYPE http_server_active_requests gauge",
        "http_server_active_requests 1",
        "# TYPE process_memory_usage_bytes gauge",
        "# TYPE process_uptime_seconds gauge",
        "# TYPE nodejs_eventloop_delay_p99_seconds gauge",
        "# TYPE nodejs_eventloop_utilization_ratio gauge",
        "# TYPE process_cpu_time_seconds_total counter"
      ]) {
        assert.include(busy.split("\n"), line)
      }
      assert.include(idle.split("\n"), "http_server_active_requests 0")
      assert.isTrue(busy.endsWith("\n"))
      for (const line of busy.split("\n").slice(0, -1)) {
        assert.match(line, /^(?:# (?:HELP|TYPE) \w+ .+|\w+(?:\{(?:\w+="[^"]*",?)+\})? [-+\d.eInf]+)$/)
      }
    }).pipe(Effect.provide(Metrics.layer))
  )

  it.effect("names counters as Prometheus does and masks secrets in labels", () =>
    Effect.gen(function* () {
      yield* Metric.update(Metric.counter("app.budget.denials", { incremental: true }), 2)
      yield* Metric.update(Metric.counter("app.queue.depth"), -1)
      yield* Metric.update(
        Metric.gauge("app.caller", { attributes: { caller: secrets.apiKey, route: "/api/agents" } }),
        1
      )
      assert.deepStrictEqual((yield* Metrics.prometheus).split("\n"), [
        "# TYPE app_budget_denials_total counter",
        "app_budget_denials_total 2",
        "# TYPE app_queue_depth gauge",
        "app_queue_depth -1",
        "# TYPE app_caller gauge",
        'app_caller{caller="<redacted>",route="/api/agents"} 1',
        ""
      ])
    }).pipe(Effect.provideService(Metric.MetricRegistry, new Map()))
  )
})

const loadedModules = `
  import { Effect, Option } from "effect"
  import { createRequire } from "node:module"
  import { layer } from "./src/platform/observability/telemetry.ts"
  const options = { endpoint: Option.none(), headers: Option.none(), serviceName: "a", serviceVersion: "1", environment: "Test" }
  await Effect.runPromise(Effect.void.pipe(Effect.provide(layer(options))))
  const loaded = Object.keys(createRequire(import.meta.url).cache).filter((path) => path.includes("opentelemetry"))
  process.stdout.write(JSON.stringify(loaded))
`

const unusedPort = Effect.callback<number>((resume) => {
  const server = createServer()
  server.listen(0, "127.0.0.1", () => {
    const { port } = server.address() as AddressInfo
    server.close(() => resume(Effect.succeed(port)))
  })
})
