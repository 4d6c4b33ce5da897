import { assert, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type Operation, operations, pathOf } from "../contract/document.ts"
import { makeAgent, tokenOf } from "../support/agents.ts"
import { makeKey, makeTenant } from "../support/authority.ts"
import { type MadeUsage, writeUsage } from "../support/insights.ts"
import { assertProblem } from "../support/problem.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

/** Those of the installation refuse tenants, which another test walks. */
const walked = operations.filter(
  (operation) =>
    /^\/api\/(?:insights|usage|subscriptions)\b/.test(operation.path) && operation["x-system-only"] !== true
)

/** What a tenant has, by what the ids of paths and the members of requests call it. */
interface World {
  readonly tenantId: string
  readonly key: string
  readonly subscription: string
  readonly anomaly: string
  readonly statement: string
  readonly charge: string
  /** What an answer about this tenant has in it. */
  readonly marks: ReadonlyArray<string>
}

const subscriptionBody = {
  provider: "openai",
  name: "Team",
  priceUsd: 20,
  quota: { unit: "tokens", amount: 1000 },
  period: "month"
}
const march = { from: "2026-03-01T00:00:00.000Z", to: "2026-04-01T00:00:00.000Z" }

const makeWorld = Effect.fnUntraced(function* (name: string) {
  const service = yield* TestService
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["*:*"], { tenantId })
  const agent = crypto.randomUUID()
  const dimensions = { agent_id: agent, model: `model-of-${name}`, provider: `provider-of-${name}` }
  const labels = { model: `model-of-${name}`, taskType: `task-of-${name}` }
  const rows: ReadonlyArray<MadeUsage> = [
    { ...dimensions, at: "2026-03-10T10:00:00Z", cost: 1e9, task_type: `task-of-${name}`, user_id: `user-of-${name}` }
  ]
  yield* writeUsage(service.database, tenantId, rows)
  const made = yield* service.call("POST", "/api/subscriptions", {
    key,
    body: { ...subscriptionBody, name: `subscription-of-${name}` }
  })
  assert.strictEqual(made.status, 201, made.text)
  const cap = yield* service.call("POST", "/api/budgets/caps", {
    key,
    body: { name: `cap-of-${name}`, unit: "usd", limit: 5, period: "month" }
  })
  assert.strictEqual(cap.status, 201, cap.text)
  const [anomaly] = yield* asSuperuser(
    service.database,
    (sql) => sql<{ readonly id: string }>`
      INSERT INTO anomalies (tenant_id, dimension, key, kind, starts_at, ends_at, detected_at, expected, actual, score,
        contributors)
      VALUES (${tenantId}, 'model', ${dimensions.model}, 'spike', now(), now(), now(), 0, 1, 3, '[]') RETURNING id`
  )
  const reserved = yield* service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 1, ...labels } })
  const charged = yield* service.call("POST", "/api/spend/reconcile", {
    key,
    body: { reservationId: reserved.body.id, actualUsd: 1 }
  })
  assert.strictEqual(charged.status, 200, charged.text)
  const report = yield* service.call("POST", "/api/insights/billing-report", {
    key,
    body: { ...march, format: "json", sign: true }
  })
  const statement = /billing-statements\/([^>]+)/.exec(report.headers.get("link") ?? "")?.[1] ?? ""
  const ids = [tenantId, made.body.id, cap.body.id, anomaly?.id ?? "", reserved.body.id]
  return {
    tenantId,
    key,
    subscription: made.body.id,
    anomaly: anomaly?.id ?? "",
    statement,
    charge: charged.body.charge.id,
    marks: [...ids, agent, `-of-${name}`]
  } satisfies World
})

/** How each operation is called about a world: path parameters, and a body where it needs one. */
const requests: Readonly<
  Record<string, (of: World) => { readonly parameters?: Readonly<Record<string, string>>; readonly body?: object }>
> = {
  "insights.overview": () => ({}),
  "insights.by": () => ({}),
  "insights.spend": ({ marks }) => ({
    parameters: { keys: [...marks, ...["model", "provider", "task", "user"].map((one) => `${one}-of-mine`)].join(",") }
  }),
  "insights.capsStatus": () => ({}),
  "usage.list": () => ({}),
  "usage.export": () => ({}),
  "usage.get": ({ charge }) => ({ parameters: { id: charge } }),
  "anomalies.list": () => ({}),
  "anomalies.get": ({ anomaly }) => ({ parameters: { id: anomaly } }),
  "anomalies.update": ({ anomaly }) => ({
    parameters: { id: anomaly },
    body: { status: "dismissed", reason: "not an anomaly" }
  }),
  "billing.report": () => ({ body: { ...march, format: "json" } }),
  "billing.statement": ({ statement }) => ({ parameters: { id: statement } }),
  "subscriptions.list": () => ({}),
  "subscriptions.create": () => ({ body: subscriptionBody }),
  "subscriptions.get": ({ subscription }) => ({ parameters: { id: subscription } }),
  "subscriptions.update": ({ subscription }) => ({ parameters: { id: subscription }, body: subscriptionBody }),
  "subscriptions.delete": ({ subscription }) => ({ parameters: { id: subscription } }),
  "subscriptions.utilization": ({ subscription }) => ({ parameters: { id: subscription } })
}

const dimensions = [
  "agent",
  "model",
  "provider",
  "task-type",
  "application",
  "plan",
  "user",
  "api-key",
  "tenant",
  "day"
]

/** The paths of an operation about a world: one for each dimension where it has one. */
const pathsOf = (operation: Operation, of: World): ReadonlyArray<string> => {
  const { parameters = {} } = requests[operation.operationId]?.(of) ?? {}
  const isRanged = operation.parameters.some(({ name }) => name === "from")
  const all = isRanged ? { ...parameters, ...march } : parameters
  return operation.path.includes("{dimension}")
    ? dimensions
        .filter((dimension) => dimension !== "day" || operation.operationId === "insights.by")
        .map((dimension) => pathOf(operation, { ...all, dimension }))
    : [pathOf(operation, all)]
}

it("every operation of insights, usage and subscriptions is in this test", () => {
  assert.sameMembers(
    walked.map(({ operationId }) => operationId),
    Object.keys(requests)
  )
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a tenant", (it) => {
  for (const operation of walked) {
    const { method, operationId } = operation
    const hasId = operation.path.includes("{id}")

    it.effect(`sees and changes nothing of another by ${operationId}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const mine = yield* makeWorld("mine")
        const theirs = yield* makeWorld("theirs")
        const { body } = requests[operationId]!(theirs)
        const call = (path: string, key: string, more: object = {}) =>
          service.call(method, path, { key, ...(body === undefined ? {} : { body: { ...body, ...more } }) })
        for (const path of pathsOf(operation, theirs)) {
          const answer = yield* call(path, mine.key)
          if (hasId) assert.strictEqual(answer.status, 404, answer.text)
          else assert.isBelow(answer.status, 300, answer.text)
          for (const mark of theirs.marks) assert.notInclude(answer.text, mark, path)
          // The same request of its own finds something, or the test would see nothing anywhere.
          if (hasId || operationId === "subscriptions.create" || path.includes("by-day")) continue
          if (/by-(?:application|plan|api-key)|spend-by-(?:agent|tenant)/.test(path)) continue
          assert.isTrue(
            mine.marks.some((mark) => answer.text.includes(mark)),
            `${path}: ${answer.text}`
          )
        }
        const named = { tenantId: theirs.tenantId }
        // A list of subscriptions is empty under another's id, as those of other resources are.
        const isReport = operation.path.startsWith("/api/insights") || operation.path.startsWith("/api/usage")
        if (isReport && operation.parameters.some(({ name }) => name === "tenantId")) {
          for (const path of pathsOf(operation, theirs)) {
            const separator = path.includes("?") ? "&" : "?"
            assertProblem(yield* call(`${path}${separator}tenantId=${theirs.tenantId}`, mine.key), 403, "forbidden")
          }
        }
        if (operationId === "billing.report" || operationId === "subscriptions.create") {
          assertProblem(yield* call(operation.path, mine.key, named), 403, "forbidden")
        }
        // The owner's is as it was.
        if (hasId) {
          const answer = yield* call(pathsOf(operation, theirs)[0]!, theirs.key)
          assert.isBelow(answer.status, 300, answer.text)
        }
      })
    )
  }

  it.effect("has agents that see what is their own, and nothing of other agents", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const agent = yield* makeAgent(service, { tenantId, scopeCeiling: ["insights:read", "insights:write"] })
      const other = crypto.randomUUID()
      const row = { at: "2026-03-10T10:00:00Z", cost: 1e9, model: "gpt-5" }
      yield* writeUsage(service.database, tenantId, [
        { ...row, agent_id: agent.id, user_id: "user-of-mine" },
        { ...row, agent_id: other, user_id: "user-of-theirs" }
      ])
      const anomalies = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly id: string; readonly key: string }>`
          INSERT INTO anomalies (tenant_id, dimension, key, kind, starts_at, ends_at, detected_at, expected, actual, score,
            contributors)
          SELECT ${tenantId}, dimension, key, 'spike', now(), now(), now(), 0, 1, 3, '[]'
          FROM (VALUES ('agent', ${agent.id}), ('agent', ${other}), ('model', 'gpt-5')) a(dimension, key) RETURNING id, key`
      )
      const { accessToken } = yield* tokenOf(service, agent)
      const call = (method: string, path: string, body?: object) =>
        service.call(method, path, {
          key: null,
          headers: { authorization: `Bearer ${accessToken}` },
          ...(body === undefined ? {} : { body })
        })
      const range = `from=${march.from}&to=${march.to}`
      const keys = `keys=user-of-mine,user-of-theirs,${agent.id},${other}&`
      for (const path of ["overview?", "by-agent?", "by-user?", `spend-by-agent?${keys}`, `spend-by-user?${keys}`].map(
        (report) => `/api/insights/${report}${range}`
      )) {
        const { body, status, text } = yield* call("GET", path)
        assert.strictEqual(status, 200, text)
        assert.notInclude(text, other)
        assert.notInclude(text, "theirs")
        assert.strictEqual(body.totals?.requests ?? body.items.length, 1)
      }
      for (const path of [`/api/usage?${range}`, `/api/usage/export?${range}`]) {
        const { text } = yield* call("GET", path)
        assert.include(text, "user-of-mine")
        assert.notInclude(text, "user-of-theirs")
      }
      const report = yield* call("POST", "/api/insights/billing-report", { ...march, format: "json" })
      assert.lengthOf(report.body.lines, 1)
      const listed = yield* call("GET", "/api/insights/anomalies")
      assert.deepStrictEqual(
        listed.body.items.map(({ key }: { readonly key: string }) => key),
        [agent.id]
      )
      for (const { id, key } of anomalies) {
        const expected = key === agent.id ? 200 : 404
        assert.strictEqual((yield* call("GET", `/api/insights/anomalies/${id}`)).status, expected)
        const decided = { status: "acknowledged", reason: "seen" }
        assert.strictEqual((yield* call("PATCH", `/api/insights/anomalies/${id}`, decided)).status, expected)
      }
      for (const path of [`/api/insights/overview?agentId=${other}`, `/api/usage?agentId=${other}`]) {
        assertProblem(yield* call("GET", path), 403, "forbidden")
      }
    })
  )
})
