import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey } from "../../support/authority.ts"
import { makeIssuer, type TestIssuer } from "../../support/issuer.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { serviceLayer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/api/identity-providers"
const discovery = "/.well-known/openid-configuration"
const allowPrivate = { IdentityProviders__AllowPrivateAddresses: "true" }

layer(serviceLayer(allowPrivate), { excludeTestServices: true, timeout: "60 seconds" })("identity providers", (it) => {
  it.effect("201: made, found, listed, tested, changed, deleted; the secret is in no answer", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { issuer } = yield* makeIssuer
      const clientSecret = "a secret that nobody sees"
      const body = { kind: "login", issuer, clientId: "a client", clientSecret }
      const made = yield* service.call("POST", path, { body })
      assert.strictEqual(made.status, 201, made.text)
      assert.deepInclude(made.body, {
        kind: "login",
        issuer,
        clientId: "a client",
        hasClientSecret: true,
        scopes: ["openid", "email", "profile"],
        claimMapping: { email: "email", emailVerified: "email_verified", name: "name" },
        domains: [],
        subjects: [],
        defaultRoleIds: [],
        tenantId: null,
        status: "active"
      })
      const at = `${path}/${made.body.id}`
      assert.strictEqual(made.headers.get("location"), at)
      assert.deepStrictEqual((yield* service.call("GET", at)).body, made.body)
      assert.deepInclude((yield* service.call("GET", `${path}?kind=login&limit=200`)).body.items, made.body)
      assert.notDeepInclude((yield* service.call("GET", `${path}?kind=workload&limit=200`)).body.items, made.body)
      const tested = yield* service.call("POST", `${at}/test`)
      assert.strictEqual(tested.status, 200, tested.text)
      assert.deepInclude(tested.body, { issuer, jwksUri: `${issuer}/keys` })
      assert.match(tested.body.redirectUri, new RegExp(`/api/auth/oidc/${made.body.id}/callback$`))
      assert.deepStrictEqual(tested.body.keys, [{ kid: "key-1", algorithm: "ES256" }])
      // As it was read, with one member changed: what stays the same may stand in it.
      const changed = yield* service.call("PATCH", at, { body: { ...made.body, domains: ["example.com"] } })
      assert.strictEqual(changed.status, 200, changed.text)
      assert.deepInclude(changed.body, { domains: ["example.com"], hasClientSecret: true })
      assert.isFalse((yield* service.call("PATCH", at, { body: { clientSecret: null } })).body.hasClientSecret)
      const entries = yield* service.call("GET", `/api/audit-logs?entityId=${made.body.id}`)
      assert.lengthOf(entries.body.items, 3)
      for (const { id } of entries.body.items) {
        assert.notInclude((yield* service.call("GET", `/api/audit-logs/${id}`)).text, clientSecret)
      }
      assert.strictEqual((yield* service.call("DELETE", at)).status, 204)
      for (const method of ["GET", "DELETE"]) {
        assertProblem(yield* service.call(method, at), 404, "identity-provider-not-found")
      }
    }).pipe(Effect.scoped)
  )

  it.effect("a provider whose keys cannot be fetched is a finding, until they can", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { answers, issuer } = yield* makeIssuer
      const { id } = yield* make(service, path, { kind: "workload", issuer })
      const findings = Effect.gen(function* () {
        const { body: report } = yield* service.call("POST", "/api/security/reports", { body: { kind: "access" } })
        const at = `/api/security/reports/${report.id}`
        yield* eventually(service.call("GET", at), ({ body }) => body.status === "completed")
        const { body } = yield* service.call("GET", `${at}/findings?rule=provider-keys-unavailable`)
        return body.items.map(({ resource }: { resource: { id: string } }) => resource.id)
      })
      assert.notInclude(yield* findings, id)
      const keys = answers.get("/keys")
      answers.set("/keys", { status: 503, body: {} })
      assertProblem(yield* service.call("POST", `${path}/${id}/test`), 400, "discovery-failed")
      assert.include(yield* findings, id)
      if (keys !== undefined) answers.set("/keys", keys)
      assert.strictEqual((yield* service.call("POST", `${path}/${id}/test`)).status, 200)
      assert.notInclude(yield* findings, id)
      const { body } = yield* service.call("GET", "/api/security/inventory?kind=identity-provider&limit=200")
      assert.include(
        body.items.map((item: { id: string }) => item.id),
        id
      )
    }).pipe(Effect.scoped)
  )

  it.effect("400: members that mean nothing for the kind, or that cannot be changed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { issuer } = yield* makeIssuer
      const login = { kind: "login", issuer, clientId: "a client" }
      const workload = { kind: "workload", issuer }
      for (const [body, ...member] of [
        [{ kind: "login", issuer }, "clientId"],
        [{ ...login, scopes: ["email"] }, "scopes"],
        [{ ...login, subjects: ["x"] }, "subjects"],
        [{ ...login, defaultRoleIds: [2_147_483_647] }, "defaultRoleIds", 0],
        [{ ...login, issuer: issuer.replace("https", "http") }, "issuer"],
        [{ ...login, issuer: `${issuer}?a=b` }, "issuer"],
        [{ ...login, allowedAlgorithms: ["HS256"] }, "allowedAlgorithms", 0],
        [{ ...login, allowedAlgorithms: ["none"] }, "allowedAlgorithms", 0],
        [{ ...login, domains: ["example..com"] }, "domains", 0],
        [{ ...workload, clientSecret: "x" }, "clientSecret"],
        [{ ...workload, scopes: ["openid"] }, "scopes"],
        [{ ...workload, domains: ["example.com"] }, "domains"],
        [{ ...workload, defaultRoleIds: [3] }, "defaultRoleIds"]
      ] as const) {
        const answer = yield* service.call("POST", path, { body })
        assertProblem(answer, 400, "validation-failed")
        assert.deepStrictEqual(answer.body.errors[0].path, ["payload", ...member], answer.text)
      }
      const { id } = yield* make(service, path, login)
      for (const [member, value] of [
        ["issuer", "https://another.example"],
        ["kind", "workload"],
        ["tenantId", "0198a5b0-7c00-7000-8000-00000000002a"]
      ] as const) {
        const answer = yield* service.call("PATCH", `${path}/${id}`, { body: { [member]: value } })
        assertProblem(answer, 400, "validation-failed")
        assert.deepStrictEqual(answer.body.errors[0].path, ["payload", member])
      }
    }).pipe(Effect.scoped)
  )

  it.effect.each<readonly [string, (issuer: TestIssuer) => void, RegExp]>([
    ["of another issuer", (issuer) => issuer.configure({ issuer: "https://evil.example" }), /is of "https:\/\/evil/],
    ["with a slash more", (issuer) => issuer.configure({ issuer: `${issuer.issuer}/` }), /not of/],
    ["without keys", (issuer) => issuer.configure({ jwks_uri: undefined }), /no OpenID configuration/],
    ["with keys over http", (issuer) => issuer.configure({ jwks_uri: "http://a.example" }), /jwks_uri is no https/],
    [
      "with a token endpoint over http",
      (issuer) => issuer.configure({ token_endpoint: "http://a.example" }),
      /token_endpoint/
    ],
    [
      "without an authorization endpoint",
      (issuer) => issuer.configure({ authorization_endpoint: undefined }),
      /authorization_endpoint/
    ],
    ["without the code flow", (issuer) => issuer.configure({ response_types_supported: ["id_token"] }), /code flow/],
    ["without S256", (issuer) => issuer.configure({ code_challenge_methods_supported: ["plain"] }), /PKCE/],
    [
      "with other algorithms",
      (issuer) => issuer.configure({ id_token_signing_alg_values_supported: ["HS256"] }),
      /HS256/
    ],
    ["larger than 64 KiB", (issuer) => issuer.configure({ padding: "x".repeat(65_536) }), /more than 65536 bytes/],
    ["that is no JSON", (issuer) => issuer.answers.set(discovery, { body: "<html>" }), /does not answer JSON/],
    ["that is not there", (issuer) => issuer.answers.delete(discovery), /404 instead of 200/],
    [
      "that is elsewhere",
      (issuer) => issuer.answers.set(discovery, { status: 302, body: "", headers: { location: "/elsewhere" } }),
      /302 instead of 200/
    ]
  ])("400: a configuration %s", ([, spoil, detail]) =>
    Effect.gen(function* () {
      const service = yield* TestService
      const issuer = yield* makeIssuer
      spoil(issuer)
      const answer = yield* service.call("POST", path, {
        body: { kind: "login", issuer: issuer.issuer, clientId: "a client" }
      })
      assertProblem(answer, 400, "discovery-failed")
      assert.match(answer.body.detail, detail)
    }).pipe(Effect.scoped)
  )

  it.effect("403: a provider whose accounts would get what its administrator lacks, or that outlives the key", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { issuer } = yield* makeIssuer
      const body = { kind: "login", issuer, clientId: "a client", defaultRoleIds: [1] }
      const few = yield* makeKey(service, ["identity-providers:*", "dashboard:read"])
      const refused = yield* service.call("POST", path, { key: few.key, body })
      assertProblem(refused, 403, "forbidden")
      assert.deepStrictEqual(refused.body.missing, ["*:*"])
      const { id } = yield* make(service, path, body)
      for (const call of [
        service.call("PATCH", `${path}/${id}`, { key: few.key, body: { defaultRoleIds: [] } }),
        service.call("PATCH", `${path}/${id}`, { key: few.key, body: { domains: [] } }),
        service.call("DELETE", `${path}/${id}`, { key: few.key })
      ]) {
        assertProblem(yield* call, 403, "forbidden")
      }
      const ending = yield* makeKey(service, ["*:*"], { expiresAt: "2099-01-01T00:00:00.000Z" })
      assertProblem(yield* service.call("POST", path, { key: ending.key, body }), 403, "forbidden")
      const stopped = yield* service.call("PATCH", `${path}/${id}`, { key: ending.key, body: { status: "disabled" } })
      assert.strictEqual(stopped.status, 200, stopped.text)
    }).pipe(Effect.scoped)
  )
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "an address that is not public",
  (it) => {
    it.effect.each([
      "https://127.0.0.1",
      "https://localhost",
      "https://[::1]",
      "https://169.254.169.254",
      "https://[::ffff:10.0.0.1]"
    ])("400: %s", (issuer) =>
      Effect.gen(function* () {
        const service = yield* TestService
        const answer = yield* service.call("POST", path, { body: { kind: "login", issuer, clientId: "a client" } })
        assertProblem(answer, 400, "discovery-failed")
        assert.include(answer.body.detail, "not of the public internet")
      })
    )
  }
)
