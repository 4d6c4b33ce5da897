import { type PgClient } from "@effect/sql-pg"
import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeAgent } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually, untilBlocked } from "../../support/waiting.ts"

type Service = TestService["Service"]

/** An identity or a finding, as far as tests look. */
const scopes = ["security:read", "security:write", "agents:read"]

/** A key of a new tenant that may ask for reports. */
const makeReader = Effect.fnUntraced(function* (service: Service) {
  const tenantId = yield* makeTenant(service.database)
  const { id, key } = yield* makeKey(service, scopes, { tenantId, expiresAt: "2100-01-01T00:00:00Z" })
  return { tenantId, keyId: id, key }
})

/** Asks for a report, and waits until it is completed. */
const reportOf = Effect.fnUntraced(function* (service: Service, key: string, kind: string) {
  const asked = yield* service.call("POST", "/api/security/reports", { key, body: { kind } })
  assert.strictEqual(asked.status, 202, asked.text)
  assert.strictEqual(asked.headers.get("location"), `/api/security/reports/${asked.body.id}`)
  const { body } = yield* eventually(
    service.call("GET", `/api/security/reports/${asked.body.id}`, { key }),
    ({ body }) => body.status === "completed"
  )
  const { body: found } = yield* service.call("GET", `/api/security/reports/${body.id}/findings`, { key })
  return { report: body, findings: found.items, path: `/api/security/reports/${body.id}` }
})

/** Does something while no report is completed. */
const whileReportsWait = <A, E>(service: Service, work: (sql: PgClient.PgClient) => Effect.Effect<A, E>) =>
  asSuperuser(service.database, (sql) =>
    sql.withTransaction(Effect.andThen(sql`LOCK TABLE delegation_grants IN ACCESS EXCLUSIVE MODE`, work(sql)))
  )

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("/api/security", (it) => {
  it.effect("lists what is no person and admits somebody, with what it used", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key, keyId, tenantId } = yield* makeReader(service)
      const agent = yield* makeAgent(service, { tenantId })
      const { id: revoked } = yield* makeKey(service, scopes, { tenantId })
      yield* service.call("DELETE", `/api/api-keys/${revoked}`)
      const { body } = yield* eventually(service.call("GET", "/api/security/inventory", { key }), ({ body }) =>
        body.items.some((item) => item.id === keyId && item.scopesUsed.length > 0)
      )
      const items = body.items
      assert.isFalse(items.some(({ id }) => id === revoked))
      assert.deepInclude(
        items.find(({ id }) => id === keyId),
        {
          kind: "api-key",
          tenantId,
          owner: "service-account",
          ownerIsLive: true,
          expiresAt: "2100-01-01T00:00:00.000Z",
          scopesGranted: scopes,
          scopesUsed: ["security:read"]
        }
      )
      assert.deepInclude(
        items.find(({ id }) => id === agent.id),
        { kind: "agent", lastUsedAt: null }
      )
      // Page by page it is the same.
      const pages: Array<string> = []
      let cursor = ""
      do {
        const page = yield* service.call("GET", `/api/security/inventory?limit=1${cursor}`, { key })
        pages.push(...page.body.items.map(({ id }) => id))
        cursor = page.body.nextCursor === null ? "" : `&cursor=${page.body.nextCursor}`
      } while (cursor !== "")
      assert.deepStrictEqual(
        pages,
        items.map(({ id }) => id)
      )
      const agents = yield* service.call("GET", "/api/security/inventory?kind=agent", { key })
      assert.deepStrictEqual(
        agents.body.items.map(({ id }) => id),
        [agent.id]
      )
    })
  )

  it.effect("reports what the rules find, and keeps what was decided about it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key, tenantId } = yield* makeReader(service)
      const old = yield* makeKey(service, ["llm:*"], { tenantId, name: "=old" })
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE api_keys SET created_at = now() - interval '400 days' WHERE id = ${old.id}`
      )
      const { findings, path, report } = yield* reportOf(service, key, "posture")
      const ofOld = findings.filter(({ resource }) => resource.id === old.id)
      assert.sameMembers(
        ofOld.map(({ rule }) => rule),
        ["no-expiry", "key-unused-90d", "age-over-365d", "wildcard-scope", "over-privileged"]
      )
      assert.strictEqual(report.findings.high, findings.filter(({ severity }) => severity === "high").length)
      const high = yield* service.call("GET", `${path}/findings?severity=high&rule=wildcard-scope`, { key })
      assert.deepStrictEqual(
        high.body.items.map(({ evidence }: { readonly evidence: string }) => evidence),
        ["Grants llm:*"]
      )

      const wild = high.body.items[0].id
      const decide = (body: unknown) => service.call("PATCH", `/api/security/findings/${wild}`, { key, body })
      assert.deepStrictEqual(faultPaths(yield* decide({ status: "suppressed" })), ["payload.reason"])
      const past = yield* decide({ status: "suppressed", reason: "known", until: "2020-01-01T00:00:00Z" })
      assert.deepStrictEqual(faultPaths(past), ["payload.until"])
      const decided = yield* decide({ status: "suppressed", reason: "known", until: "2100-01-01T00:00:00Z" })
      assert.deepInclude(decided.body, { status: "suppressed", reason: "known", until: "2100-01-01T00:00:00.000Z" })
      const next = yield* reportOf(service, key, "access")
      const again = next.findings.find(({ resource, rule }) => resource.id === old.id && rule === "wildcard-scope")
      assert.deepInclude(again, { status: "suppressed", reason: "known" })
      assert.notStrictEqual(again?.id, wild)
      yield* decide({ status: "open" })
      const reopened = yield* service.call("GET", `${path}/findings?status=open&rule=wildcard-scope`, { key })
      assert.strictEqual(reopened.body.items.length, 1)

      const exported = (format: string) => service.call("GET", `${path}/export?format=${format}`, { key })
      const json = yield* exported("json")
      assert.deepStrictEqual(
        JSON.parse(json.text).map(({ id }: { readonly id: string }) => id),
        findings.map(({ id }) => id)
      )
      const csv = (yield* exported("csv")).text.trimEnd().split("\r\n")
      assert.strictEqual(csv.length, findings.length + 1)
      assert.isTrue(csv.some((line) => line.includes("'=old")))
      const sarif = JSON.parse((yield* exported("sarif")).text)
      assert.strictEqual(sarif.version, "2.1.0")
      const [run] = sarif.runs
      assert.strictEqual(run.results.length, findings.length)
      for (const { ruleId, ruleIndex } of run.results) {
        assert.strictEqual(run.tool.driver.rules[ruleIndex].id, ruleId)
      }
    })
  )

  it.effect("says what an agent spends without a cap, until there is one", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key, tenantId } = yield* makeReader(service)
      const agent = yield* makeAgent(service, { tenantId })
      const spent = yield* service.call("POST", "/api/spend/reserve", { body: { agentId: agent.id, amountUsd: 2 } })
      assert.strictEqual(spent.status, 201, spent.text)
      const settled = yield* service.call("POST", "/api/spend/reconcile", {
        body: { reservationId: spent.body.id, actualUsd: 1.5 }
      })
      assert.strictEqual(settled.status, 200, settled.text)
      const uncapped = Effect.map(reportOf(service, key, "agents"), ({ findings }) =>
        findings.filter(({ rule }) => rule === "spend-without-cap").map(({ evidence }) => evidence)
      )
      yield* eventually(
        uncapped,
        (found) => found.length === 1 && found[0]?.startsWith("Charged 1.5 US dollars") === true
      )
      yield* service.call("POST", "/api/budgets/caps", {
        body: { name: "each", unit: "usd", limit: 10, period: "month", scope: { agentId: "each" }, tenantId }
      })
      assert.deepStrictEqual(yield* uncapped, [])
    })
  )

  it.effect("answers a request with the report of the kind that is pending, until it is completed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key, tenantId } = yield* makeReader(service)
      const request = (kind: string) => service.call("POST", "/api/security/reports", { key, body: { kind } })
      const answers = yield* whileReportsWait(service, () =>
        Effect.all(
          ["posture", "posture", "posture", "access"].map((kind) => request(kind)),
          { concurrency: "unbounded" }
        )
      )
      assert.deepStrictEqual(
        answers.map(({ body, headers, status }) => [status, headers.get("location"), body.status, body.tenantId]),
        answers.map(({ body }) => [202, `/api/security/reports/${body.id}`, "pending", tenantId])
      )
      const ids = answers.map(({ body }) => body.id as string)
      assert.deepStrictEqual([new Set(ids.slice(0, 3)).size, new Set(ids).size], [1, 2])
      const { report } = yield* reportOf(service, key, "posture")
      const { body } = yield* service.call("GET", "/api/audit-logs?actionType=SecurityReportRequested")
      const requested = body.items.map(({ entityId }: { readonly entityId: string }) => entityId)
      assert.deepStrictEqual(
        ids.slice(1).map((id) => requested.filter((one: string) => one === id).length),
        [1, 1, 1]
      )
      const again = yield* eventually(request("posture"), ({ body }) => body.id !== report.id)
      assert.strictEqual(again.status, 202)
    })
  )

  it.effect("serves the tenant next that was served longest ago", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [busy, other] = [yield* makeReader(service), yield* makeReader(service)]
      const request = (key: string, kind: string) =>
        Effect.map(
          service.call("POST", "/api/security/reports", { key, body: { kind } }),
          ({ body }) => body.id as string
        )
      const [last, first] = yield* whileReportsWait(service, (sql) =>
        Effect.gen(function* () {
          yield* request(busy.key, "posture")
          yield* untilBlocked(sql)
          const asked = yield* Effect.forEach(["keys", "agents", "access"], (kind) => request(busy.key, kind))
          return [asked.at(-1)!, yield* request(other.key, "keys")] as const
        })
      )
      const completedAt = (id: string) =>
        Effect.map(
          eventually(service.call("GET", `/api/security/reports/${id}`), ({ body }) => body.status === "completed"),
          ({ body }) => Date.parse(body.completedAt)
        )
      assert.isAtMost(yield* completedAt(first), yield* completedAt(last))
    })
  )

  it.effect("makes the reports of others where one always fails", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [failing, other] = [yield* makeReader(service), yield* makeReader(service)]
      yield* asSuperuser(service.database, (sql) =>
        Effect.andThen(
          sql`CREATE FUNCTION never_completed() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE EXCEPTION 'a report that fails'; END $$`,
          sql`CREATE TRIGGER never_completed BEFORE UPDATE ON security_reports FOR EACH ROW
            WHEN (NEW.tenant_id = ${sql.literal(`'${failing.tenantId}'`)}) EXECUTE FUNCTION never_completed()`
        )
      )
      const body = { kind: "posture" }
      const { body: asked } = yield* service.call("POST", "/api/security/reports", { key: failing.key, body })
      yield* reportOf(service, other.key, "posture")
      const status = Effect.map(
        service.call("GET", `/api/security/reports/${asked.id}`),
        (answer) => answer.body.status
      )
      assert.strictEqual(yield* status, "pending")
      yield* asSuperuser(service.database, (sql) => sql`DROP TRIGGER never_completed ON security_reports`)
      // Another request has the service look for reports again.
      yield* service.call("POST", "/api/security/reports", { key: other.key, body })
      yield* eventually(status, (now) => now === "completed")
    })
  )

  it.effect("shows nothing of another tenant, and refuses its reports", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const mine = yield* makeReader(service)
      const other = yield* makeReader(service)
      const { findings, path } = yield* reportOf(service, other.key, "posture")
      const inventory = yield* service.call("GET", "/api/security/inventory", { key: mine.key })
      assert.isTrue(inventory.body.items.every(({ tenantId }) => tenantId === mine.tenantId))
      for (const hidden of [path, `${path}/findings`, `${path}/export`]) {
        assertProblem(yield* service.call("GET", hidden, { key: mine.key }), 404, "security-report-not-found")
      }
      const body = { status: "acknowledged", reason: "mine" }
      const [finding] = findings
      if (finding !== undefined) {
        const patched = yield* service.call("PATCH", `/api/security/findings/${finding.id}`, { key: mine.key, body })
        assertProblem(patched, 404, "security-finding-not-found")
      }
      const asked = yield* service.call("POST", "/api/security/reports", {
        key: mine.key,
        body: { kind: "keys", tenantId: other.tenantId }
      })
      assertProblem(asked, 403, "forbidden")
      const unknown = yield* service.call("POST", "/api/security/reports", {
        body: { kind: "keys", tenantId: "01980a5c-0000-7000-8000-000000000000" }
      })
      assertProblem(unknown, 404, "tenant-not-found")
      const rule = yield* service.call("GET", `${path}/findings?rule=nothing`, { key: other.key })
      assert.deepStrictEqual(faultPaths(rule), ["query.rule"])
    })
  )
})
