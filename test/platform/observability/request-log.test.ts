import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Logger, References } from "effect"
import * as Logging from "../../../src/platform/observability/logging.ts"
import { makeDatabase } from "../../support/database.ts"
import { startService } from "../../support/service.ts"

/** The lines that a service with these settings logs for a few requests. */
const logged = Effect.fnUntraced(function* (settings: Record<string, string>, level: "Info" | "Debug") {
  const lines: Array<Record<string, unknown>> = []
  const logger = Logger.map(Logging.json, (line) => void lines.push(JSON.parse(line)))
  const { call } = yield* startService(yield* makeDatabase, settings, [logger]).pipe(
    Effect.provideService(References.MinimumLogLevel, level)
  )
  const found = yield* call("GET", "/api/trial-users/1")
  const absent = yield* call("GET", "/nowhere?key=secret", { key: null })
  const model = yield* call("GET", "/v1/models/none")
  const lacking = yield* call("PUT", "/api/trial-users/1")
  const calls = yield* call("POST", "/v1/chat/completions", { body: { model: "none", messages: [] } })
  assert.deepStrictEqual(
    [found, absent, model, lacking, calls].map(({ status }) => status),
    [404, 404, 404, 405, 400]
  )
  return { found, absent, lines: lines.filter(({ method }) => method !== undefined) }
})

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })("the log of requests", (it) => {
  for (const [settings, level] of [
    [{ Logging__Requests: "true" }, "Info"],
    [{ Logging__Level: "Debug" }, "Debug"]
  ] as const) {
    it.effect(`has a line for each at ${level}: ${JSON.stringify(settings)}`, () =>
      Effect.gen(function* () {
        const { absent, found, lines } = yield* logged(settings, level)
        const [first, second] = lines
        assert.deepInclude(first, {
          level,
          message: "GET /api/trial-users/:id 404",
          method: "GET",
          route: "/api/trial-users/:id",
          status: 404,
          principal: "service-account",
          traceId: found.body.traceId,
          requestId: found.headers.get("x-request-id")
        })
        assert.isAbove(Number(first?.durationMs), 0)
        assert.deepInclude(second, { principal: "anonymous", traceId: absent.body.traceId, status: 404 })
        assert.notInclude(JSON.stringify(lines), "secret")
        assert.deepStrictEqual(
          lines.slice(2).map(({ principal, route }) => [route, principal]),
          [
            ["/v1/models/*", "service-account"],
            ["/api/trial-users/:id", "anonymous"],
            ["/v1/chat/completions", "service-account"]
          ]
        )
      }).pipe(Effect.scoped)
    )
  }

  for (const settings of [{}, { Logging__Requests: "true", Logging__Level: "Warn" }]) {
    it.effect(`has none with ${JSON.stringify(settings)}`, () =>
      Effect.gen(function* () {
        assert.isEmpty((yield* logged(settings, "Info")).lines)
      }).pipe(Effect.scoped)
    )
  }
})
