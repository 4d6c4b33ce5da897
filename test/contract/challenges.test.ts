import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { bearer, makeAccount, signIn } from "../support/accounts.ts"
import { makeAgent, tokenOf } from "../support/agents.ts"
import { makeKey } from "../support/authority.ts"
import { type Answer, serviceLayer, TestService } from "../support/service.ts"
import {
  anonymousOperations,
  compatibleOperations,
  documented,
  examplePath,
  type Operation,
  ownOperations
} from "./document.ts"

/** The challenges of an answer (RFC 9110 §11.6.1), by scheme. */
const challengesOf = ({ headers }: Pick<Answer, "headers">) => {
  const header = headers.get("www-authenticate") ?? ""
  const challenges: Record<string, Record<string, string>> = {}
  let rest = header
  let current: Record<string, string> = {}
  while (rest !== "") {
    const part = /^(?:, )?(?:(\w+) (?=\w+="))?(\w+)="([\x20\x21\x23-\x5b\x5d-\x7e]*)"/.exec(rest)
    assert.isNotNull(part, `${header} is no list of challenges at ${rest}`)
    const [whole, scheme, name = "", value = ""] = part!
    if (scheme !== undefined) challenges[scheme] = current = {}
    assert.notProperty(current, name, header)
    current[name] = value
    rest = rest.slice(whole.length)
  }
  return challenges
}

const notAccepted = { error: "invalid_token", error_description: "The token is not accepted." }

/** The operations whose callers are authenticated by a header, in the API's format and in those of vendors. */
const authenticated = documented.filter(
  (operation) =>
    !anonymousOperations.includes(operation.operationId) &&
    (operation["x-foreign-format"] !== true || compatibleOperations.includes(operation))
)

const call = (service: TestService["Service"], operation: Operation, headers: Record<string, string>) => {
  const example = Object.values(operation.requestBody?.content ?? {})[0]?.example
  const body = operation.requestBody?.content["application/json"] === undefined ? {} : { body: example ?? {} }
  return service.call(operation.method, examplePath(operation), { key: null, headers, ...body })
}

layer(serviceLayer({ IdentityProviders__AllowPrivateAddresses: "true" }), {
  excludeTestServices: true,
  timeout: "120 seconds"
})("challenges", (it) => {
  it.effect("of every operation: no error without a token, and one for each token that is not accepted", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const ended = yield* tokenOf(service, agent)
      yield* service.call("DELETE", `/api/agents/credentials/${ended.credentialId}`)
      assert.isAbove(authenticated.length, 150)
      for (const operation of authenticated) {
        const named = operation.operationId
        const needed = operation["x-required-capability"]
        const scope =
          needed === undefined ? {} : { scope: [needed, ...(operation["x-and-capabilities"] ?? [])].join(" ") }
        const refused = yield* call(service, operation, {})
        assert.strictEqual(refused.status, 401, `${named} ${refused.text}`)
        const { ApiKey, Bearer } = challengesOf(refused)
        const { resource_metadata: metadata = "", ...rest } = Bearer ?? {}
        assert.deepStrictEqual(
          [ApiKey, rest],
          [{ realm: "application-manager" }, { realm: "application-manager", ...scope }]
        )
        const [, base = ""] = operation.path.split("/")
        assert.match(metadata, new RegExp(`/\\.well-known/oauth-protected-resource/${base === "v1" ? "v1" : "api"}$`))
        for (const authorization of [
          `Bearer ${ended.accessToken}`,
          "Bearer amt_unknown",
          "bearer  e30.e30.e30",
          "Bearer not a token"
        ]) {
          const answer = yield* call(service, operation, { authorization })
          assert.strictEqual(answer.status, 401, `${named} ${answer.text}`)
          const { Bearer: challenge } = challengesOf(answer)
          assert.deepStrictEqual(challenge, { ...Bearer, ...notAccepted }, `${named}, ${authorization}`)
        }
        for (const headers of [{ "x-api-key": "amk_none" }, { authorization: "Basic bm9uZTpub25l" }]) {
          const answer = yield* call(service, operation, headers)
          assert.deepStrictEqual([answer.status, challengesOf(answer).Bearer], [401, Bearer], named)
        }
      }
    })
  )

  it.effect("name scopes that the metadata lists which they name", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const base of ["api", "v1"]) {
        const metadata = yield* service.call("GET", `/.well-known/oauth-protected-resource/${base}`)
        const own = authenticated.filter(({ path }) => path.startsWith(`/${base}/`))
        assert.isNotEmpty(own)
        for (const operation of own) {
          const { scope = "" } = challengesOf(yield* call(service, operation, {})).Bearer ?? {}
          assert.includeMembers(metadata.body.scopes_supported, scope === "" ? [] : scope.split(" "), operation.path)
        }
      }
    })
  )

  it.effect("of every operation: insufficient_scope, and which, for a token that lacks it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service, { scopeCeiling: ["dashboard:read"] })
      const { accessToken } = yield* tokenOf(service, agent)
      const key = yield* makeKey(service, ["dashboard:read"])
      for (const operation of authenticated) {
        const { operationId, "x-required-capability": needed } = operation
        if (ownOperations.includes(operationId) && operation["x-accounts-only"] !== true) continue
        const refused = yield* call(service, operation, { authorization: `Bearer ${accessToken}` })
        assert.strictEqual(refused.status, 403, `${operationId} ${refused.text}`)
        const { ApiKey, Bearer } = challengesOf(refused)
        assert.deepStrictEqual(ApiKey, { realm: "application-manager" })
        assert.strictEqual(Bearer?.error, "insufficient_scope", operationId)
        assert.isNotEmpty(Bearer?.error_description)
        const isOfCapability = operation["x-system-only"] !== true && operation["x-accounts-only"] !== true
        const scope = isOfCapability ? [needed, ...(operation["x-and-capabilities"] ?? [])].join(" ") : undefined
        assert.strictEqual(Bearer?.scope, scope, operationId)
        if (!isOfCapability || needed === "dashboard:read") continue
        const byKey = yield* call(service, operation, { "x-api-key": key.key })
        const { Bearer: challenge } = challengesOf(byKey)
        assert.deepStrictEqual([byKey.status, challenge?.error, challenge?.scope], [403, undefined, scope], operationId)
      }
    })
  )

  it.effect("name what a token cannot grant, in addition to what the operation needs", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service, ["api-keys:write"])
      const token = yield* signIn(service, account)
      const body = { name: "more", scopes: ["trial-users:read", "roles:*"] }
      const refused = yield* service.call("POST", "/api/api-keys", bearer(token, { body }))
      assert.strictEqual(refused.status, 403, refused.text)
      assert.deepInclude(challengesOf(refused).Bearer, {
        error: "insufficient_scope",
        scope: "api-keys:write trial-users:read roles:*"
      })
    })
  )

  it.effect("are not those of what a token has nothing to do with", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const account = yield* makeAccount(service, ["dashboard:read"])
      const token = yield* signIn(service, account)
      const wrong = yield* service.call(
        "PATCH",
        "/api/auth/password",
        bearer(token, { body: { currentPassword: "wrong", newPassword: "four silver trout upstream" } })
      )
      assert.strictEqual(wrong.status, 403, wrong.text)
      assert.isNull(wrong.headers.get("www-authenticate"))
      const login = yield* service.call(
        "POST",
        "/api/auth/login",
        bearer(token, { body: { email: account.email, password: "wrong" } })
      )
      assert.strictEqual(login.status, 401, login.text)
      assert.notProperty(challengesOf(login).Bearer, "error")
    })
  )

  it.effect("of registration and introspection are made the same way", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const realm = { realm: "application-manager" }
      const path = "/api/applications/register/1"
      const without = yield* service.call("GET", path, { key: null })
      assert.deepStrictEqual(challengesOf(without), { Bearer: realm })
      const wrong = yield* service.call("GET", path, { key: null, headers: { authorization: "Bearer amr_none" } })
      assert.deepStrictEqual(challengesOf(wrong), { Bearer: { ...realm, ...notAccepted } })
      const { key } = yield* makeKey(service, ["dashboard:read"])
      for (const [endpoint, scope] of [
        ["introspect", "agents:introspect"],
        ["revoke", "agents:write"]
      ]) {
        const refused = yield* Effect.promise(() =>
          fetch(`${service.url}/oauth2/${endpoint}`, {
            method: "POST",
            headers: { "x-api-key": key },
            body: new URLSearchParams({ token: "x" })
          })
        )
        assert.strictEqual(refused.status, 403)
        assert.deepStrictEqual(challengesOf(refused), { Bearer: { ...realm, scope } })
      }
    })
  )
})
