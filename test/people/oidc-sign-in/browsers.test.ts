import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { documented } from "../../contract/document.ts"
import { makeIssuer } from "../../support/issuer.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { type Answer, serviceLayer, TestService } from "../../support/service.ts"

const unknown = "0198a5b0-7c00-7000-8000-00000000002a"
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

const get = Effect.fnUntraced(function* (path: string, accept: string) {
  const service = yield* TestService
  return yield* service.call("GET", path, { key: null, headers: { accept } })
})

const assertPage = (answer: Answer, status: number): void => {
  assert.strictEqual(answer.status, status, answer.text)
  assert.strictEqual(answer.headers.get("content-type"), "text/html; charset=utf-8")
  assert.include(answer.headers.get("content-security-policy"), "default-src 'none'")
  assert.include(answer.headers.get("vary"), "Accept")
  assert.isNotNull(answer.headers.get("x-request-id"))
  assert.include(answer.text, 'href="/console"')
  assert.notInclude(answer.text, "urn:application-manager")
}

const sessions = serviceLayer({ IdentityProviders__AllowPrivateAddresses: "true" })

layer(sessions, { excludeTestServices: true, timeout: "60 seconds" })("a browser that signs in", (it) => {
  for (const [path, status, slug] of [
    [`/api/auth/oidc/${unknown}/start`, 404, "identity-provider-not-found"],
    [`/api/auth/oidc/${unknown}/callback?error=access_denied&state=x`, 404, "identity-provider-not-found"],
    ["/api/auth/oidc/none/start", 400, "validation-failed"],
    ["/api/auth/oidc/none/callback?state=x", 400, "validation-failed"],
    [`/api/auth/oidc/${unknown}/start?next=%2F%2Fevil.example`, 400, "validation-failed"],
    [`/api/auth/oidc/${unknown}/callback?code=%00`, 400, "validation-failed"],
    ["/api/auth/oidc", 404, "route-not-found"],
    ["/consol", 404, "route-not-found"],
    ["/console/assets/none.js", 404, "route-not-found"],
    ["/problems/%3Cscript%3E", 404, "route-not-found"]
  ] as const) {
    it.effect(`${status} for ${path} is a page for a browser, and a problem for a program`, () =>
      Effect.gen(function* () {
        const page = yield* get(path, browser)
        assertPage(page, status)
        assert.notInclude(page.text, "<script>")
        assertPage(yield* get(path, "text/html"), status)
        for (const accept of ["*/*", "application/json", "application/problem+json, text/html"]) {
          const problem = yield* get(path, accept)
          assertProblem(problem, status, slug)
          assert.include(problem.headers.get("vary"), "Accept")
        }
      })
    )
  }

  it.effect("a sign-in that fails, and a provider that is away", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { issuer } = yield* makeIssuer
      const { id } = yield* make(service, "/api/identity-providers", {
        kind: "login",
        issuer,
        clientId: "a client"
      })
      const denied = `/api/auth/oidc/${id}/callback?error=access_denied&state=x`
      const page = yield* get(denied, browser)
      assertPage(page, 401)
      assert.include(page.text, "The sign-in with the identity provider failed.")
      const problem = yield* get(denied, "application/json")
      assertProblem(problem, 401, "unauthenticated")
      // The issuer signs with another algorithm than is allowed from now on.
      yield* service.call("PATCH", `/api/identity-providers/${id}`, { body: { allowedAlgorithms: ["RS256"] } })
      assertPage(yield* get(`/api/auth/oidc/${id}/start`, browser), 502)
      assertProblem(yield* get(`/api/auth/oidc/${id}/start`, "*/*"), 502, "identity-provider-unavailable")
    }).pipe(Effect.scoped)
  )

  it.effect("no type that the routes have is a problem, and other routes keep theirs", () =>
    Effect.gen(function* () {
      assertProblem(yield* get(`/api/auth/oidc/${unknown}/start`, "image/png"), 406, "not-acceptable")
      assertProblem(yield* get("/api/auth/me", browser), 401, "unauthenticated")
      assertProblem(yield* get("/api/auth/providers", "text/html"), 406, "not-acceptable")
    })
  )

  it("the document says so of each of its problems", () => {
    for (const { operationId, responses } of documented) {
      const isForBrowsers = ["oidcSignIn.start", "oidcSignIn.callback"].includes(operationId)
      for (const [status, { content = {} }] of Object.entries(responses)) {
        if (operationId.startsWith("pages.") || status < "400") continue
        assert.strictEqual("text/html" in content, isForBrowsers, `${operationId} ${status}`)
      }
    }
  })
})

layer(serviceLayer({ Api__RateLimit__Enabled: "true", Api__RateLimit__AnonymousPerMinute: "1" }), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("a browser that signs in too often", (it) => {
  it.effect("429 is a page, with the time to wait", () =>
    Effect.gen(function* () {
      const path = `/api/auth/oidc/${unknown}/start`
      yield* get(path, browser)
      const page = yield* get(path, browser)
      assertPage(page, 429)
      assert.isAbove(Number(page.headers.get("retry-after")), 0)
      assertProblem(yield* get(path, "*/*"), 429, "rate-limited")
    })
  )
})
