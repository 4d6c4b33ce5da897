import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { bearer, behindProxy, cookieOf, login, makeAccount, newEmail, withCookie } from "../../support/accounts.ts"
import { makeKey } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { serviceLayer, TestService } from "../../support/service.ts"

const ours = "http://manager.localhost:11402"

/** Headers of a request with our cookie, and whether it is let in when its method changes things. */
const requests: ReadonlyArray<readonly [string, Record<string, string>, boolean]> = [
  ["same-origin", { "sec-fetch-site": "same-origin" }, true],
  ["typed into the address bar", { "sec-fetch-site": "none" }, true],
  ["cross-site", { "sec-fetch-site": "cross-site" }, false],
  ["a sibling's (same-site)", { "sec-fetch-site": "same-site" }, false],
  ["an unknown value", { "sec-fetch-site": "?" }, false],
  ["cross-site with our origin", { "sec-fetch-site": "cross-site", origin: ours }, false],
  ["our origin from an old browser", { origin: ours }, true],
  ["another origin from an old browser", { origin: "https://evil.example" }, false],
  ["our host by another scheme", { origin: "https://manager.localhost:11402" }, false],
  ["our host on another port", { origin: "http://manager.localhost" }, false],
  ["a sandboxed page's origin", { origin: "null" }, false],
  ["no browser", {}, true]
]

layer(serviceLayer({ ...behindProxy, Api__PublicUrl: ours }), { excludeTestServices: true, timeout: "60 seconds" })(
  "requests with our cookie",
  (it) => {
    for (const [what, headers, isLetIn] of requests) {
      it.effect(`${isLetIn ? "let in" : "403"}: ${what}`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const cookie = cookieOf(yield* login(service, yield* makeAccount(service, ["accounts:*"])))
          const body = { email: newEmail(), name: "Eve", password: "seven grey herons at dawn", roleIds: [] }
          const made = yield* service.call("POST", "/api/accounts", withCookie(cookie, { body, headers }))
          if (isLetIn) assert.strictEqual(made.status, 201, made.text)
          else assertProblem(made, 403, "forbidden")
          assert.strictEqual((yield* service.call("GET", "/api/accounts", withCookie(cookie, { headers }))).status, 200)
          const refreshed = yield* service.call("POST", "/api/auth/refresh", withCookie(cookie, { headers }))
          assert.strictEqual(refreshed.status, isLetIn ? 200 : 403, refreshed.text)
          const out = yield* service.call("POST", "/api/auth/logout", withCookie(cookie, { headers }))
          assert.strictEqual(out.status, isLetIn ? 204 : 403, out.text)
        })
      )
    }

    it.effect("403: a sign-in from another site, which would sign its visitor in as somebody else", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const account = yield* makeAccount(service)
        assertProblem(yield* login(service, account, { "sec-fetch-site": "cross-site" }), 403, "forbidden")
        assertProblem(yield* login(service, account, { origin: "https://evil.example" }), 403, "forbidden")
      })
    )

    it.effect("a request with a key or a bearer token is that one's, whatever cookie comes along", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const answer = yield* login(service, yield* makeAccount(service, ["*:*"]))
        const cookie = cookieOf(answer)
        const headers = { cookie, "sec-fetch-site": "cross-site" }
        const { id, key } = yield* makeKey(service, ["roles:read"])
        const asKey = yield* service.call("GET", "/api/auth/me", { key, headers })
        assert.strictEqual(asKey.body.principal, `api-key:${id}`)
        const asBearer = yield* service.call("DELETE", "/api/auth/sessions", bearer(answer.body.token, { headers }))
        assert.strictEqual(asBearer.status, 204)
        for (const authorization of ["Bearer nobody", "Bearer a.b.c", "Bearer", "Basic YTpi", "Bearer a b"]) {
          const call = { key: null, headers: { cookie, authorization } }
          assertProblem(yield* service.call("GET", "/api/auth/me", call), 401, "unauthenticated")
        }
        assertProblem(yield* service.call("GET", "/api/auth/me", { key: "nobody's", headers }), 401, "unauthenticated")
      })
    )

    it.effect("401: an API key as a bearer token, with a word on where it belongs", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { key } = yield* makeKey(service, ["*:*"])
        const answer = yield* service.call("GET", "/api/auth/me", bearer(key))
        assertProblem(answer, 401, "unauthenticated")
        assert.include(answer.body.detail, "X-Api-Key")
      })
    )
  }
)
