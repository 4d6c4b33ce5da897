import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as jose from "jose"
import * as oauth from "oauth4webapi"
import { assertionOf, grant, isActive, issuerOf, makeAgent, type TestAgent, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

type Service = TestService["Service"]

const insecure = { [oauth.allowInsecureRequests]: true }

/** A client of oauth4webapi for an agent, as any program would make it from the metadata. */
const clientOf = (service: Service, agent: TestAgent) =>
  Effect.promise(async () => {
    const issuer = new URL(await issuerOf(service))
    const found = await fetch(`${service.url}/.well-known/oauth-authorization-server`)
    const metadata = await oauth.processDiscoveryResponse(issuer, found)
    // The service listens on a port of the test's own, which its public address does not name.
    const local = (url: string | undefined) => `${service.url}${new URL(url ?? "").pathname}`
    const server: oauth.AuthorizationServer = {
      ...metadata,
      token_endpoint: local(metadata.token_endpoint),
      introspection_endpoint: local(metadata.introspection_endpoint),
      revocation_endpoint: local(metadata.revocation_endpoint)
    }
    const pem = agent.key.privateKey.export({ type: "pkcs8", format: "pem" }).toString()
    const key = await jose.importPKCS8(pem, agent.key.algorithm)
    const authentication = oauth.PrivateKeyJwt({ key, kid: agent.key.kid })
    return { server, client: { client_id: agent.id } satisfies oauth.Client, authentication }
  })

const form = (service: Service, path: string, body: Record<string, string> | string, headers = {}) =>
  service.call("POST", path, {
    key: null,
    body: typeof body === "string" ? body : new URLSearchParams(body).toString(),
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers }
  })

const basic = `Basic ${Buffer.from("a-client:a-secret").toString("base64")}`
const realm = `realm="application-manager"`
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the standard wire", (it) => {
  it.effect("RFC6749 §4.4 oauth4webapi gets a token, introspects and revokes it, unmodified", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const { authentication, client, server } = yield* clientOf(service, agent)
      yield* Effect.promise(async () => {
        const parameters = new URLSearchParams({ scope: "llm:complete" })
        const asked = await oauth.clientCredentialsGrantRequest(server, client, authentication, parameters, insecure)
        const token = await oauth.processClientCredentialsResponse(server, client, asked)
        assert.strictEqual(token.token_type, "bearer")
        assert.strictEqual(token.scope, "llm:complete")

        const looked = await oauth.introspectionRequest(server, client, authentication, token.access_token, insecure)
        const told = await oauth.processIntrospectionResponse(server, client, looked)
        assert.deepInclude(told, { active: true, client_id: agent.id, scope: "llm:complete" })

        const ended = await oauth.revocationRequest(server, client, authentication, token.access_token, insecure)
        await oauth.processRevocationResponse(ended)
        const again = await oauth.introspectionRequest(server, client, authentication, token.access_token, insecure)
        assert.deepStrictEqual(await oauth.processIntrospectionResponse(server, client, again), { active: false })
      })
    })
  )

  it.effect("RFC9728 §5.1 oauth4webapi finds the authorization server from the answer that refused it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const [path, method] of [
        ["/api/agents", "GET"],
        ["/v1/chat/completions", "POST"]
      ] as const) {
        const refused = yield* service.call(method, path, { key: null, ...(method === "POST" ? { body: {} } : {}) })
        assert.strictEqual(refused.status, 401, refused.text)
        const [, metadata = ""] =
          /resource_metadata="([^"]+)"/.exec(refused.headers.get("www-authenticate") ?? "") ?? []
        // The service listens on a port of the test's own, which its public address does not name.
        const local = {
          ...insecure,
          [oauth.customFetch]: (url: string) => fetch(`${service.url}${new URL(url).pathname}`)
        }
        yield* Effect.promise(async () => {
          const resource = new URL(`/${path.split("/")[1]}`, metadata)
          const found = await oauth.resourceDiscoveryRequest(resource, local)
          assert.strictEqual(new URL(found.url).pathname, new URL(metadata).pathname)
          const described = await oauth.processResourceDiscoveryResponse(resource, found)
          const issuer = new URL(described.authorization_servers?.[0] ?? "")
          const discover = async (algorithm: "oidc" | "oauth2") =>
            oauth.processDiscoveryResponse(issuer, await oauth.discoveryRequest(issuer, { ...local, algorithm }))
          for (const server of await Promise.all([discover("oidc"), discover("oauth2")])) {
            assert.strictEqual(server.token_endpoint, new URL("/oauth2/token", issuer).href)
            assert.includeMembers(server.scopes_supported ?? [], described.scopes_supported ?? [""])
          }
        })
      }
    })
  )

  it.effect("RFC8693 §2 oauth4webapi exchanges a token, unmodified", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const subject = yield* makeAgent(service)
      const agent = yield* makeAgent(service, {}, "EdDSA")
      yield* grant(service, agent, subject)
      const { accessToken } = yield* tokenOf(service, subject)
      const { authentication, client, server } = yield* clientOf(service, agent)
      yield* Effect.promise(async () => {
        const asked = await oauth.genericTokenEndpointRequest(
          server,
          client,
          authentication,
          "urn:ietf:params:oauth:grant-type:token-exchange",
          { subject_token: accessToken, subject_token_type: "urn:ietf:params:oauth:token-type:access_token" },
          insecure
        )
        const token = await oauth.processGenericTokenEndpointResponse(server, client, asked)
        assert.strictEqual(token.issued_token_type, "urn:ietf:params:oauth:token-type:access_token")
        assert.strictEqual(token.scope, "llm:complete")
      })
    })
  )

  it.effect("RFC6749 §5.2 a client that authenticates by Basic, by a secret, or not at all: 401 invalid_client", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const grantBody = { grant_type: "client_credentials", client_id: agent.id }
      const assertion = {
        client_assertion_type: assertionType,
        client_assertion: yield* assertionOf(service, agent)
      }
      for (const [body, headers, scheme] of [
        [grantBody, {}, "Bearer"],
        [{ ...grantBody, client_secret: "a secret" }, {}, "Bearer"],
        [grantBody, { authorization: basic }, "Basic"]
      ] as const) {
        const answer = yield* form(service, "/oauth2/token", body, headers)
        assert.strictEqual(answer.status, 401, answer.text)
        assert.strictEqual(answer.body.error, "invalid_client")
        assert.strictEqual(answer.headers.get("www-authenticate"), `${scheme} ${realm}`)
      }
      const good = yield* form(service, "/oauth2/token", { ...grantBody, ...assertion })
      assert.strictEqual(good.status, 200, good.text)
    })
  )

  it.effect("RFC8707 §2 several resources and audiences are taken where each is this service", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const issuer = yield* Effect.promise(() => issuerOf(service))
      const other = "https://other.example/api"
      for (const [targets, status] of [
        [
          [
            ["resource", `${issuer}/api`],
            ["resource", `${issuer}/v1`]
          ],
          200
        ],
        [
          [
            ["audience", issuer],
            ["audience", `${issuer}/api`],
            ["audience", issuer]
          ],
          200
        ],
        [
          [
            ["resource", issuer],
            ["audience", `${issuer}/v1`],
            ["resource", ""]
          ],
          200
        ],
        [
          [
            ["resource", `${issuer}/api`],
            ["resource", other]
          ],
          400
        ],
        [
          [
            ["audience", other],
            ["audience", issuer]
          ],
          400
        ]
      ] as const) {
        const body = new URLSearchParams({
          grant_type: "client_credentials",
          client_assertion_type: assertionType,
          client_assertion: yield* assertionOf(service, agent)
        })
        for (const [name, target] of targets) body.append(name, target)
        const answer = yield* form(service, "/oauth2/token", body.toString())
        assert.strictEqual(answer.status, status, answer.text)
        if (status === 400) assert.strictEqual(answer.body.error, "invalid_target")
      }
    })
  )

  it.effect("RFC8693 §3 a token of this service is no ID token", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const subject = yield* makeAgent(service)
      const agent = yield* makeAgent(service)
      yield* grant(service, agent, subject)
      const { accessToken } = yield* tokenOf(service, subject)
      for (const [type, status] of [
        ["id_token", 400],
        ["access_token", 200],
        ["jwt", 200]
      ] as const) {
        const answer = yield* form(service, "/oauth2/token", {
          grant_type: "urn:ietf:params:oauth:grant-type:token-exchange",
          client_assertion_type: assertionType,
          client_assertion: yield* assertionOf(service, agent),
          subject_token: accessToken,
          subject_token_type: `urn:ietf:params:oauth:token-type:${type}`
        })
        assert.strictEqual(answer.status, status, answer.text)
        if (status === 400) assert.strictEqual(answer.body.error, "invalid_request")
      }
    })
  )

  it.effect("RFC6749 §2.3 a client that authenticates in several ways at once is invalid_request, everywhere", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const { accessToken: token } = yield* tokenOf(service, agent)
      const assertion = {
        client_assertion_type: assertionType,
        client_assertion: yield* assertionOf(service, agent)
      }
      const secret = { client_secret: "a secret" }
      const several: ReadonlyArray<readonly [object, object]> = [
        [assertion, { authorization: basic }],
        [secret, { authorization: basic }],
        [{ ...assertion, ...secret }, {}]
      ]
      const asCaller: typeof several = [
        [assertion, { authorization: `Bearer ${token}` }],
        [assertion, { "x-api-key": service.serviceKey }],
        [{}, { authorization: `Bearer ${token}`, "x-api-key": service.serviceKey }]
      ]
      const grantBody = { grant_type: "client_credentials", client_id: agent.id }
      for (const [path, body, ways] of [
        ["/oauth2/token", grantBody, several],
        ["/oauth2/introspect", { token }, [...several, ...asCaller]],
        ["/oauth2/revoke", { token }, [...several, ...asCaller]]
      ] as const) {
        for (const [members, headers] of ways) {
          const answer = yield* form(service, path, { ...body, ...members }, headers)
          assert.strictEqual(answer.status, 400, answer.text)
          assert.strictEqual(answer.body.error, "invalid_request")
        }
      }
      // Nothing ended, and the assertion is still good for once.
      assert.isTrue(yield* isActive(service, token))
      assert.strictEqual((yield* form(service, "/oauth2/token", { ...grantBody, ...assertion })).status, 200)
    })
  )

  it.effect("RFC7009 §2.1 revocation without a credential: 401 invalid_client, and nothing ends", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { accessToken: token } = yield* tokenOf(service, yield* makeAgent(service))
      const answer = yield* form(service, "/oauth2/revoke", { token })
      assert.strictEqual(answer.status, 401, answer.text)
      assert.strictEqual(answer.body.error, "invalid_client")
      assert.isTrue(yield* isActive(service, token))
    })
  )

  it.effect("RFC7009 §2.1 a token that is revoked while its agent is suspended stays so when it is active again", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const { accessToken: token } = yield* tokenOf(service, agent)
      const become = (status: string) => service.call("PATCH", `/api/agents/${agent.id}`, { body: { status } })
      yield* become("suspended")
      const answer = yield* form(service, "/oauth2/revoke", { token }, { "x-api-key": service.serviceKey })
      assert.strictEqual(answer.status, 200, answer.text)
      yield* become("active")
      assert.isFalse(yield* isActive(service, token))
    })
  )

  const refusals: ReadonlyArray<readonly [must: string, Record<string, string> | string, number, string]> = [
    ["RFC6749 §5.2 no grant_type", {}, 400, "invalid_request"],
    ["RFC6749 §5.2 another grant_type", { grant_type: "password" }, 400, "unsupported_grant_type"],
    ["RFC6749 §3.2 a parameter twice", "grant_type=client_credentials&grant_type=x", 400, "invalid_request"],
    [
      "RFC7521 §4.2 no assertion",
      { grant_type: "client_credentials", client_assertion_type: assertionType },
      400,
      "invalid_request"
    ],
    [
      "RFC7521 §4.2 another client_assertion_type",
      { grant_type: "client_credentials", client_assertion_type: "x", client_assertion: "x" },
      400,
      "invalid_request"
    ],
    [
      "RFC8707 §2 a resource that is another's",
      {
        grant_type: "client_credentials",
        client_assertion_type: assertionType,
        client_assertion: "a.b.c",
        resource: "https://other.example"
      },
      400,
      "invalid_target"
    ],
    [
      "RFC6749 §5.2 an assertion that is none",
      { grant_type: "client_credentials", client_assertion_type: assertionType, client_assertion: "a.b.c" },
      401,
      "invalid_client"
    ]
  ]
  for (const [must, body, status, error] of refusals) {
    it.effect(`${must}: ${status} ${error} in plain JSON`, () =>
      Effect.gen(function* () {
        const answer = yield* form(yield* TestService, "/oauth2/token", body)
        assert.strictEqual(answer.status, status, answer.text)
        assert.strictEqual(answer.headers.get("content-type"), "application/json")
        assert.strictEqual(answer.headers.get("cache-control"), "no-store")
        assert.deepStrictEqual(Object.keys(answer.body), ["error", "error_description"])
        assert.strictEqual(answer.body.error, error)
        if (status === 401) assert.isNotNull(answer.headers.get("www-authenticate"))
      })
    )
  }

  it.effect("RFC6749 §3.2 a body that is no form is invalid_request, and one of more than 16 KiB too, as 413", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const json = yield* service.call("POST", "/oauth2/token", { key: null, body: {} })
      assert.deepInclude(json.body, { error: "invalid_request" })
      for (const path of ["/oauth2/token", "/oauth2/introspect", "/oauth2/revoke"]) {
        const large = yield* form(service, path, { grant_type: "x".repeat(17_000) })
        assert.strictEqual(large.status, 413)
        assert.strictEqual(large.body.error, "invalid_request")
      }
      // Nor where nobody says beforehand how much comes.
      const lines = ["Content-Type: application/x-www-form-urlencoded", "Transfer-Encoding: chunked"]
      const chunk = `4400\r\ngrant_type=${"x".repeat(0x4400 - "grant_type=".length)}\r\n0\r\n\r\n`
      const endless = yield* exchange(service.url, `${requestText("POST", "/oauth2/token", lines)}${chunk}`)
      assert.deepStrictEqual(
        endless.answers.map(({ body, status }) => [status, body.error]),
        [[413, "invalid_request"]]
      )
    })
  )

  it.effect(
    "RFC7662 §2.1 introspection needs a credential that may: a key with agents:introspect, or the agent's own",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* makeAgent(service)
        const { accessToken: token } = yield* tokenOf(service, agent)
        const ask = (headers: object) => form(service, "/oauth2/introspect", { token }, headers)
        const able = yield* makeKey(service, ["agents:introspect"])
        const unable = yield* makeKey(service, ["dashboard:read"])
        const foreign = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
        const other = yield* tokenOf(service, yield* makeAgent(service))
        assert.strictEqual((yield* ask({ "x-api-key": able.key })).body.active, true)
        assert.strictEqual((yield* ask({ authorization: `Bearer ${token}` })).body.active, true)
        assert.deepStrictEqual((yield* ask({ authorization: `Bearer ${other.accessToken}` })).body, { active: false })
        assert.deepStrictEqual((yield* ask({ "x-api-key": foreign.key })).body, { active: false })
        assert.strictEqual((yield* ask({ "x-api-key": unable.key })).status, 403)
        assert.strictEqual((yield* ask({ "x-api-key": "amk_none" })).status, 401)
        for (const [headers, error, challenge] of [
          [{}, "invalid_client", `Bearer ${realm}`],
          [
            { authorization: "Bearer none" },
            "invalid_token",
            `Bearer ${realm}, error="invalid_token", error_description="The access token is not accepted."`
          ],
          [{ authorization: basic }, "invalid_client", `Basic ${realm}`]
        ] as const) {
          const refused = yield* ask(headers)
          assert.strictEqual(refused.status, 401, refused.text)
          assert.strictEqual(refused.body.error, error)
          assert.strictEqual(refused.headers.get("www-authenticate"), challenge)
        }
      })
  )

  it.effect("RFC7009 §2.2 revocation of what is no token, or another's, is 200 and does nothing", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const one = yield* tokenOf(service, yield* makeAgent(service))
      const other = yield* tokenOf(service, yield* makeAgent(service))
      const revoke = (token: string, by: string) =>
        form(service, "/oauth2/revoke", { token }, { authorization: `Bearer ${by}` })
      assert.strictEqual((yield* revoke("no token", one.accessToken)).status, 200)
      assert.strictEqual((yield* revoke(other.accessToken, one.accessToken)).status, 200)
      assert.isTrue(yield* isActive(service, other.accessToken))
      assert.strictEqual((yield* revoke(one.accessToken, one.accessToken)).status, 200)
      assert.isFalse(yield* isActive(service, one.accessToken))
    })
  )

  it.effect("an assertion that introspected is used up, for every endpoint", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service)
      const { accessToken: token } = yield* tokenOf(service, agent)
      const body = { token, client_assertion_type: assertionType, client_assertion: yield* assertionOf(service, agent) }
      assert.strictEqual((yield* form(service, "/oauth2/introspect", body)).body.active, true)
      assert.strictEqual((yield* form(service, "/oauth2/introspect", body)).status, 401)
      const grantBody = { ...body, grant_type: "client_credentials" }
      assert.strictEqual((yield* form(service, "/oauth2/token", grantBody)).status, 401)
    })
  )

  it.effect("other methods are 405 with Allow", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* service.call("GET", "/oauth2/token")
      assert.strictEqual(answer.status, 405)
      assert.include(answer.headers.get("allow") ?? "", "POST")
    })
  )
})
