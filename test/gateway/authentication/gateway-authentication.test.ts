import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeAccount, signIn } from "../../support/accounts.ts"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { makeDatabase } from "../../support/database.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

type Service = TestService["Service"]

const path = "/v1/chat/completions"
const body = { model: "loopback-1", max_tokens: 10, messages: [{ role: "user", content: "Hello" }] }
const ask = (service: Service, headers: Record<string, string>, members: object = {}) =>
  service.call("POST", path, { key: null, headers, body: { ...body, ...members } })
const native = (service: Service, headers: Record<string, string>) =>
  Effect.map(
    service.call("POST", "/api/llm/complete", {
      key: null,
      headers,
      body: { model: "loopback-1", maxTokens: 10, messages: body.messages }
    }),
    ({ status }) => status
  )
const bearer = (credential: string) => ({ authorization: `Bearer ${credential}` })

const lastSpent = ({ database }: Service) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly agent: string | null; readonly task: string | null; readonly tenant: string }>`
      SELECT agent_id::text AS agent, task_type AS task, tenant_id::text AS tenant FROM budget_reservations
      ORDER BY id DESC LIMIT 1`
  )

const options = { excludeTestServices: true, timeout: "60 seconds" } as const

layer(sharedServiceLayer, options)("callers of the gateway", (it) => {
  it.effect("send a key or an agent's token, in either header", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* makeKey(service, ["llm:complete"])
      const agent = yield* makeAgent(service)
      const { accessToken } = yield* tokenOf(service, agent)
      for (const credential of [service.serviceKey, key, accessToken]) {
        for (const headers of [bearer(credential), { "x-api-key": credential }]) {
          const answer = yield* ask(service, headers)
          assert.strictEqual(answer.status, 200, answer.text)
        }
        assert.strictEqual((yield* ask(service, { ...bearer(credential), "x-api-key": credential })).status, 200)
      }
      assert.strictEqual((yield* ask(service, { ...bearer(accessToken), "x-api-key": key })).status, 401)
      assert.strictEqual((yield* ask(service, { authorization: "Basic eDp5" })).status, 401)
      assert.strictEqual((yield* ask(service, {})).status, 401)
      assert.strictEqual((yield* ask(service, bearer(`${accessToken}x`))).status, 401)
    })
  )

  it.effect("are charged as the agent that they are, or declare, with its task type", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service, { allowedTaskTypes: ["sum", "sort"], defaultTaskType: "sum" })
      const other = yield* makeAgent(service)
      const { accessToken } = yield* tokenOf(service, agent)
      yield* ask(service, bearer(accessToken))
      assert.deepInclude((yield* lastSpent(service))[0], { agent: agent.id, task: "sum", tenant: agent.tenantId })
      yield* ask(service, { ...bearer(accessToken), "x-task-type": "sort" })
      assert.deepInclude((yield* lastSpent(service))[0], { agent: agent.id, task: "sort" })
      const declared = { ...bearer(service.serviceKey), "x-agent-id": agent.id }
      yield* ask(service, declared)
      assert.deepInclude((yield* lastSpent(service))[0], { agent: agent.id, task: "sum" })

      const forbidden = yield* ask(service, { ...bearer(accessToken), "x-task-type": "steal" })
      assert.deepStrictEqual([forbidden.status, forbidden.body.error.code], [400, "task_type_not_allowed"])
      for (const type of ["", "a".repeat(201)]) {
        const odd = yield* ask(service, { ...bearer(service.serviceKey), "x-task-type": type })
        assert.deepStrictEqual([odd.status, odd.body.error.param], [400, "taskType"])
      }
      // No filter and no cap could name a type without a visible character.
      for (const taskType of [" ", "\u200b"]) {
        for (const [path, own] of [
          ["/api/llm/complete", { model: "loopback-1", messages: body.messages }],
          ["/api/llm/embed", { model: "loopback-embedding", input: "Hello" }]
        ] as const) {
          const odd = yield* service.call("POST", path, { body: { ...own, taskType } })
          assert.deepStrictEqual([odd.status, odd.body.errors?.[0].path], [400, ["payload", "taskType"]], odd.text)
        }
      }
      // A header has bytes: of UTF-8 as a rule, or of Latin-1.
      for (const [encoding, type, status] of [
        ["utf8", "\u200b", 400],
        ["latin1", "\u00ad", 400],
        ["utf8", "Pru\u0308fung", 200],
        ["latin1", "Prüfung", 200]
      ] as const) {
        const lines = [
          "Content-Type: application/json",
          `Authorization: Bearer ${service.serviceKey}`,
          `X-Task-Type: ${type}`
        ]
        const text = requestText("POST", path, lines, JSON.stringify(body))
        const { answers } = yield* exchange(service.url, Buffer.from(text, encoding))
        assert.deepStrictEqual(
          answers.map(({ status }) => status),
          [status],
          type
        )
        if (status === 200) assert.deepInclude((yield* lastSpent(service))[0], { task: "Prüfung" })
      }
      const foreign = yield* ask(service, { ...bearer(accessToken), "x-agent-id": other.id })
      assert.strictEqual(foreign.status, 403)
      const planned = yield* ask(service, { ...bearer(accessToken), "x-plan-id": agent.id })
      assert.strictEqual(planned.status, 404)
      for (const id of ["no id", "0198a5b0-7c00-7000-8000-00000000002a"]) {
        assert.isTrue([400, 404].includes((yield* ask(service, { ...declared, "x-agent-id": id })).status))
      }
      const { key } = yield* makeKey(service, ["llm:*"], { tenantId: yield* makeTenant(service.database) })
      assert.strictEqual((yield* ask(service, { ...bearer(key), "x-agent-id": agent.id })).status, 404)
    })
  )

  it.effect("spend in one turn no more than their agent may", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const agent = yield* makeAgent(service, { perTurnBudget: 0.001 })
      const { accessToken } = yield* tokenOf(service, agent)
      assert.strictEqual((yield* ask(service, bearer(accessToken))).status, 200)
      const larger = yield* ask(service, bearer(accessToken), { max_tokens: 10_000 })
      assert.deepStrictEqual([larger.status, larger.body.error.code], [402, "request_exceeds_budget"])
      const { body: log } = yield* service.call("GET", `/api/audit-logs?actionType=SpendRefused&entityId=${agent.id}`)
      assert.match(log.items[0]?.reason, /budget for one turn/)
    })
  )
})

describe("the policy of the gateway", () => {
  const start = Effect.fnUntraced(function* (policy: string, environment: Record<string, string> = {}) {
    const service = yield* startService(yield* makeDatabase, { Llm__Gateway__Auth: policy, ...environment })
    const { key } = yield* makeKey(service, ["llm:complete"])
    const agent = yield* makeAgent(service)
    const { accessToken } = yield* tokenOf(service, agent)
    return { service, key, agent, accessToken }
  })

  it.live("takes keys alone, or agents alone", () =>
    Effect.gen(function* () {
      const keys = yield* start("ApiKey")
      assert.strictEqual((yield* ask(keys.service, bearer(keys.key))).status, 200)
      assert.strictEqual((yield* ask(keys.service, bearer(keys.accessToken))).status, 401)
      assert.strictEqual(yield* native(keys.service, bearer(keys.key)), 200)
      assert.strictEqual(yield* native(keys.service, bearer(keys.accessToken)), 401)
      const agents = yield* start("AgentToken")
      assert.strictEqual(yield* native(agents.service, { "x-api-key": agents.key }), 401)
      assert.strictEqual(yield* native(agents.service, { "x-api-key": agents.accessToken }), 200)
      // Whoever signed in may under every policy.
      const token = yield* signIn(agents.service, yield* makeAccount(agents.service, ["llm:complete"]))
      assert.strictEqual(yield* native(agents.service, bearer(token)), 200)
      assert.strictEqual(yield* native(agents.service, {}), 401)
      assert.strictEqual((yield* ask(agents.service, bearer(agents.key))).status, 401)
      assert.strictEqual((yield* ask(agents.service, bearer(agents.accessToken))).status, 200)
    }).pipe(Effect.scoped)
  )

  it.live("takes both together, of which the agent is charged and each limits", () =>
    Effect.gen(function* () {
      const { accessToken, agent, key, service } = yield* start("ApiKeyAndAgentToken")
      assert.strictEqual((yield* ask(service, bearer(key))).status, 401)
      assert.strictEqual((yield* ask(service, bearer(accessToken))).status, 401)
      assert.strictEqual((yield* ask(service, { ...bearer(accessToken), "x-api-key": key })).status, 200)
      assert.strictEqual((yield* lastSpent(service))[0]?.agent, agent.id)
      assert.strictEqual(yield* native(service, bearer(accessToken)), 401)
      assert.strictEqual(yield* native(service, { "x-api-key": key }), 401)
      assert.strictEqual(yield* native(service, { ...bearer(accessToken), "x-api-key": key }), 200)
      assert.strictEqual((yield* lastSpent(service))[0]?.agent, agent.id)
      const { id: apiKeyId, key: limited } = yield* makeKey(service, ["llm:complete"])
      const cap = { name: "the key's", unit: "requests", limit: 0, period: "total", scope: { apiKeyId } }
      assert.strictEqual((yield* service.call("POST", "/api/budgets/caps", { body: cap })).status, 201)
      assert.strictEqual((yield* ask(service, { ...bearer(accessToken), "x-api-key": limited })).status, 402)
      assert.strictEqual((yield* ask(service, { ...bearer(accessToken), "x-api-key": key })).status, 200)
      const { key: unable } = yield* makeKey(service, ["llm:embed"])
      assert.strictEqual((yield* ask(service, { ...bearer(accessToken), "x-api-key": unable })).status, 403)
      const { key: foreign } = yield* makeKey(service, ["llm:*"], { tenantId: yield* makeTenant(service.database) })
      assert.strictEqual((yield* ask(service, { ...bearer(accessToken), "x-api-key": foreign })).status, 401)
    }).pipe(Effect.scoped)
  )

  it.live("takes everybody in Development where it says so, and stops a start in Production", () =>
    Effect.gen(function* () {
      const { service } = yield* start("None")
      assert.strictEqual((yield* ask(service, {})).status, 200)
      assert.strictEqual((yield* ask(service, bearer("amk_wrong"))).status, 401)
      assert.strictEqual(yield* native(service, {}), 200)
      assert.strictEqual(yield* native(service, bearer("amk_wrong")), 401)

      const tenantId = yield* makeTenant(service.database)
      const [foreign, own] = [yield* makeAgent(service, { tenantId }), yield* makeAgent(service)]
      assert.strictEqual((yield* ask(service, { "x-agent-id": foreign.id })).status, 404)
      assert.strictEqual((yield* ask(service, { "x-agent-id": own.id })).status, 200)
      assert.strictEqual((yield* lastSpent(service))[0]?.tenant, own.tenantId)
      for (const type of ["text/plain", "application/x-www-form-urlencoded", "text/plain;application/json"]) {
        assert.strictEqual((yield* ask(service, { "content-type": type })).status, 415, type)
      }
      const typeless = yield* Effect.promise(() =>
        fetch(`${service.url}/api/llm/complete`, { method: "POST", body: new TextEncoder().encode("{}") })
      )
      assert.strictEqual(typeless.status, 401)
      assert.match(yield* Effect.promise(() => typeless.text()), /Content-Type: application\/json/)
      const failure = yield* Effect.flip(
        startService(yield* makeDatabase, { Llm__Gateway__Auth: "None", APP_ENVIRONMENT: "Production" })
      )
      assert.match(String((failure as Error).message), /Llm:Gateway:Auth/)
    }).pipe(Effect.scoped)
  )

  it.live("takes an operator's key of any form, dots included", () =>
    Effect.gen(function* () {
      const key = "the.operators.key-of-some-length-and-more"
      const service = yield* startService(yield* makeDatabase, { Api__ApiKey: key })
      assert.strictEqual((yield* ask(service, bearer(key))).status, 200)
      assert.strictEqual(yield* native(service, bearer(key)), 200)
      assert.strictEqual((yield* ask(service, bearer(`${key}.`))).status, 401)
    }).pipe(Effect.scoped)
  )
})
