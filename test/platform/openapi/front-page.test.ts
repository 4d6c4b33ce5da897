import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as net from "node:net"
import { serviceVersion } from "../../../src/platform/runtime/version.ts"
import { makeDatabase } from "../../support/database.ts"
import { assertProblem } from "../../support/problem.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"

const browser = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" }

/** The status line of the answer to a request whose target no client would send. */
const statusOf = (url: string, method: string, target: string) =>
  Effect.callback<string>((resume) => {
    const { hostname, port } = new URL(url)
    let answer = ""
    const socket = net.connect(Number(port), hostname, () =>
      socket.write(Buffer.from(`${method} ${target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`, "latin1"))
    )
    socket.on("data", (chunk) => (answer += String(chunk)))
    socket.once("error", () => {})
    socket.once("close", () => resume(Effect.succeed(answer.split("\r\n")[0] ?? "")))
    return Effect.sync(() => socket.destroy())
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the front page", (it) => {
  it.effect("leads browsers and programs to what there is", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      const json = yield* call("GET", "/", { key: null })
      assert.deepStrictEqual([json.status, json.body.version], [200, serviceVersion])
      const page = yield* call("GET", "/", { key: null, headers: browser })
      assert.deepStrictEqual([page.status, page.headers.get("location")], [302, "/console"])
      const links: ReadonlyArray<string> = json.body.links.map(({ href }: { readonly href: string }) => href)
      assert.includeMembers([...links], ["/console", "/openapi.json", "/swagger", "/health/ready"])
      for (const href of links) {
        assert.strictEqual((yield* call("GET", href, { key: null })).status, 200, href)
      }
      assertProblem(yield* call("POST", "/", { key: null }), 405, "method-not-allowed")
    })
  )

  it.effect("is a route of its own in metrics and in the log of requests, and so is every page", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      for (const path of ["/", "/console/claim", "/problems/route-not-found", "/nowhere"])
        yield* call("GET", path, { key: null })
      const { text } = yield* call("GET", "/metrics", { key: null })
      const counted = (labels: string) => assert.include(text, `{http_request_method="GET",${labels}} `)
      counted('http_route="/",http_response_status_code="200"')
      counted('http_route="/console/*",http_response_status_code="200"')
      counted('http_route="/problems/:slug",http_response_status_code="200"')
      counted('http_response_status_code="404"')
    })
  )

  it.effect("has an icon, and the OpenAPI document where tools look for it", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      const icon = yield* call("GET", "/favicon.ico", { key: null })
      assert.deepStrictEqual([icon.status, icon.headers.get("content-type")], [200, "image/svg+xml"])
      const document = yield* call("GET", "/openapi.json", { key: null })
      assert.strictEqual(document.text, (yield* call("GET", "/swagger", { key: null })).text)
    })
  )

  it.effect("401 and 415 say what to send", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      for (const key of [null, "wrong-key"]) {
        const refused = yield* call("GET", "/api/trial-users", { key })
        assertProblem(refused, 401, "unauthenticated")
        assert.match(refused.body.detail, /API key in the header X-Api-Key, or a token in Authorization: Bearer/)
      }
      const headers = { "content-type": "application/x-www-form-urlencoded" }
      const form = yield* call("POST", "/api/trial-users", { body: "firstName=Ada", headers })
      assertProblem(form, 415, "unsupported-media-type")
      assert.include(form.body.detail, "send Content-Type: application/json.")
    })
  )

  it.effect("odd paths get an answer", () =>
    Effect.gen(function* () {
      const { url } = yield* TestService
      const targets = [
        "*",
        "//[",
        "http://[",
        "http:///",
        "//:80",
        "/\\",
        "/..//[::",
        "/problems/%25zz",
        "/?=&=",
        "\u00ff"
      ]
      const answers = yield* Effect.forEach(
        ["GET", "HEAD", "OPTIONS", "POST", "DELETE"].flatMap((method) =>
          targets.map((target) => [method, target] as const)
        ),
        ([method, target]) => statusOf(url, method, target),
        { concurrency: 10 }
      )
      for (const status of answers) assert.match(status, /^HTTP\/1\.1 [24]\d\d /)
    })
  )
})

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })(
  "a service without what Production leaves out",
  (it) => {
    it.effect("the page does not lead to the OpenAPI document, and the paths name the setting", () =>
      Effect.gen(function* () {
        const { call } = yield* startService(yield* makeDatabase, { Api__Swagger__Enabled: "false" })
        assert.notInclude((yield* call("GET", "/", { key: null })).text, "openapi")
        const absent = yield* call("GET", "/openapi.json", { key: null })
        assertProblem(absent, 404, "route-not-found")
        assert.include(absent.body.detail, "Api:Swagger:Enabled")
      }).pipe(Effect.scoped)
    )

    it.effect("the metrics, which are off, have no path", () =>
      Effect.gen(function* () {
        const { call } = yield* startService(yield* makeDatabase, { Telemetry__Prometheus__Enabled: "false" })
        for (const method of ["GET", "HEAD", "POST", "OPTIONS"]) {
          assert.strictEqual((yield* call(method, "/metrics", { key: null })).status, 404, method)
        }
      }).pipe(Effect.scoped)
    )
  }
)
