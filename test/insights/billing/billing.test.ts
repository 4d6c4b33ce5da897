import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { focusFaults, parseCsv } from "./focus.ts"
import { type StatementEnvelope } from "#src/audit/statements/domain.ts"

const path = "/api/insights/billing-report"
const agent = "0198a5b0-7c00-7000-8000-00000000000a"
const range = { from: "2026-03-01T00:00:00.000Z", to: "2026-04-01T00:00:00.000Z" }

const rates = {
  input: "1250000000",
  output: "10000000000",
  cacheRead: "125000000",
  cacheWrite: "1562500000",
  cacheWrite1h: "2500000000",
  reasoning: "10000000000"
}
const perMillion = (tokens: number, rate: string) => Math.ceil((tokens * Number(rate)) / 1e6)

interface Row {
  readonly at: string
  readonly cost: number
  readonly method: string
  readonly [column: string]: unknown
}

/** A call that its rates explain, calls that they do not, a spend, a refund, and what costs nothing. */
const rows = (shift: number): ReadonlyArray<Row> => {
  const call = { agent_id: agent, provider: "openai", model: "gpt-5", task_type: "=1+1", rates }
  const at = (minute: number) => new Date(Date.UTC(2026, 2, 10, 9, minute + shift)).toISOString()
  const priced = (minute: number, input: number, cached: number, output: number): Row => ({
    ...call,
    at: at(minute),
    method: "provider_usage",
    input_tokens: input,
    cached_input_tokens: cached,
    cache_write_tokens: 0,
    cache_write_1h_tokens: 0,
    output_tokens: output,
    reasoning_tokens: 0,
    cost:
      perMillion(input - cached, rates.input) + perMillion(cached, rates.cacheRead) + perMillion(output, rates.output)
  })
  return [
    priced(0, 1001, 333, 77),
    priced(1, 17, 0, 3),
    priced(61, 999_999, 1, 1),
    { ...call, at: at(2), method: "unanswered", cost: 123_456_789 },
    // Ten tokens at their price, and a tool that has none.
    { ...call, at: at(9), method: "provider_usage", input_tokens: 10, output_tokens: 0, cost: 12_500 + 10_000_000 },
    { at: at(3), method: "reported", cost: 750_000_001, agent_id: agent },
    { at: at(4), method: "refunded", cost: -250_000_001, agent_id: agent },
    { ...call, at: at(5), method: "released", cost: 0 },
    { ...call, at: at(6), method: "cached", cost: 0, input_tokens: 10, output_tokens: 10 },
    { ...call, at: "2026-04-01T00:00:00.000Z", method: "reported", cost: 1 }
  ]
}

const setting = Effect.gen(function* () {
  const service = yield* TestService
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["insights:read"], { tenantId })
  const write = (given: ReadonlyArray<Row>) =>
    asSuperuser(
      service.database,
      (sql) => sql`
        INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, created_by, agent_id,
          model, provider, task_type, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens,
          cache_write_1h_tokens, reasoning_tokens, rates)
        SELECT ${tenantId}::uuid, new_id(), new_id(), r.at, 0, r.cost, r.method, 'test', r.agent_id, r.model, r.provider,
          r.task_type, r.input_tokens, r.output_tokens, r.cached_input_tokens, r.cache_write_tokens,
          r.cache_write_1h_tokens, r.reasoning_tokens, r.rates
        FROM json_to_recordset(${JSON.stringify(given)}::text::json) AS r(at timestamptz, cost bigint, method text,
          agent_id uuid, model text, provider text, task_type text, input_tokens bigint, output_tokens bigint,
          cached_input_tokens bigint, cache_write_tokens bigint, cache_write_1h_tokens bigint, reasoning_tokens bigint,
          rates jsonb)`
    )
  const report = (body: object, as: string = key) =>
    service.call("POST", path, { key: as, body: { ...range, ...body } })
  return { service, tenantId, key, write, report }
})

const sum = (given: ReadonlyArray<Row>): bigint =>
  given.reduce((total, { at, cost }) => (at < range.to ? total + BigInt(cost) : total), 0n)

/** Exact dollars of a text as nano-dollars. */
const nano = (text: string): bigint => {
  const [whole = "0", fraction = ""] = text.replace("-", "").split(".")
  return BigInt(whole + fraction.padEnd(9, "0")) * (text.startsWith("-") ? -1n : 1n)
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  refusesStrangers(it, [{ name: "report", method: "POST", path, capability: "insights:read", systemOnly: false }])

  it.effect("has lines and totals that equal the ledger to the nano-dollar, charge by charge and in groups", () =>
    Effect.gen(function* () {
      const { report, write } = yield* setting
      const given = rows(0)
      yield* write(given)
      const whole = yield* report({ format: "json" })
      assert.strictEqual(whole.status, 200, whole.text)
      assert.lengthOf(whole.body.lines, 7)
      const costs = Array.from(whole.text.matchAll(/"costUsd":(-?[\d.]+)/g), ([, cost = ""]) => nano(cost))
      assert.strictEqual(costs.at(-1), sum(given))
      assert.strictEqual(
        costs.slice(0, -1).reduce((a, b) => a + b, 0n),
        sum(given)
      )
      const grouped = yield* report({ format: "csv", groupBy: ["model", "day"] })
      const { header, rows: lines } = parseCsv(grouped.text)
      assert.deepStrictEqual(header, [
        "day",
        "model",
        "requests",
        "inputTokens",
        "outputTokens",
        "cachedInputTokens",
        "costUsd"
      ])
      assert.strictEqual(
        lines.reduce((total, { costUsd }) => total + nano(costUsd ?? ""), 0n),
        sum(given)
      )
      assert.deepStrictEqual(
        lines.map(({ model, requests }) => [model, requests]),
        [
          ["gpt-5", "5"],
          [null, "1"]
        ]
      )
    })
  )

  it.effect("names what has a name, charge by charge and in groups, of one's own tenant alone", () =>
    Effect.gen(function* () {
      const { report, service, tenantId, write } = yield* setting
      const owner = (yield* makeKey(service, ["*:*"], { tenantId })).key
      const { body: made } = yield* service.call("POST", "/api/agents", {
        key: owner,
        body: { name: "clerk", scopeCeiling: [] }
      })
      const charge = { at: "2026-03-10T09:00:00.000Z", method: "reported", cost: 5 }
      yield* write([{ ...charge, agent_id: made.id }, { ...charge, agent_id: agent }, charge])
      const { header, rows: lines } = parseCsv((yield* report({ format: "csv", groupBy: ["agent", "api-key"] })).text)
      assert.deepStrictEqual(header.slice(-3), ["costUsd", "agentName", "apiKeyName"])
      assert.sameDeepMembers(
        lines.map(({ agentId, agentName, apiKeyName }) => [agentId, agentName, apiKeyName]),
        [
          [made.id, "clerk", null],
          [agent, null, null],
          [null, null, null]
        ]
      )
      const { body } = yield* report({ format: "json" })
      const named = body.lines.map(({ agentName, tenantName }: Readonly<Record<string, unknown>>) => [
        agentName,
        tenantName
      ])
      assert.sameDeepMembers(named, [
        ["clerk", "A tenant"],
        [null, "A tenant"],
        [null, "A tenant"]
      ])
    })
  )

  it.effect("equals the entries of the ledger, with late charges and refunds, in every format and grouping", () =>
    Effect.gen(function* () {
      const { report, service, tenantId } = yield* setting
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const post = Effect.fnUntraced(function* (at: string, body: object, as?: string) {
        const answer = yield* service.call("POST", at, { ...(as === undefined ? {} : { key: as }), body })
        assert.isBelow(answer.status, 300, answer.text)
        return answer.body
      })
      for (const [index, actualUsd] of [1e-9, 0.1, 0.3, 1 / 3, 7.000000001, 0, 123.456789012].entries()) {
        const { id } = yield* post("/api/spend/reserve", { amountUsd: 200, taskType: `task ${index % 3}` }, key)
        const isLate = index % 3 === 2
        if (isLate) yield* service.call("DELETE", `/api/spend/reservations/${id}`, { key })
        const exact = Number(actualUsd.toFixed(9))
        const { charge } = yield* post("/api/spend/reconcile", { reservationId: id, actualUsd: exact }, key)
        if (index === 1 || index === 3) {
          yield* post("/api/spend/refunds", { chargeId: charge.id, amountUsd: 0.000000001, reason: "wrong" })
        }
      }
      const [ledger] = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly total: string; readonly entries: number; readonly late: number }>`
          SELECT sum(amount)::text AS total, count(*)::integer AS entries, count(*) FILTER (WHERE late)::integer AS late
          FROM budget_entries WHERE tenant_id = ${tenantId}`
      )
      assert.deepInclude(ledger, { entries: 9, late: 2 })
      const now = Date.now()
      const around = {
        from: new Date(now - 3_600_000).toISOString(),
        to: new Date(now + 3_600_000).toISOString()
      }
      for (const groupBy of [undefined, ["task-type"], ["tenant", "hour"], ["agent", "model", "user", "day"]]) {
        const groups = groupBy === undefined ? {} : { groupBy }
        const { text } = yield* report({ ...around, format: "json", ...groups })
        const costs = Array.from(text.matchAll(/"costUsd":(-?[\d.]+)/g), ([, cost = ""]) => nano(cost))
        assert.strictEqual(String(costs.pop()), ledger?.total)
        assert.strictEqual(String(costs.reduce((a, b) => a + b, 0n)), ledger?.total)
        if (groupBy === undefined) assert.lengthOf(costs, 9)
        const csv = yield* report({ ...around, format: "csv", ...groups })
        const lines = parseCsv(csv.text).rows
        assert.strictEqual(String(lines.reduce((all, { costUsd }) => all + nano(costUsd ?? ""), 0n)), ledger?.total)
      }
      const focus = yield* report({ ...around, format: "focus" })
      assert.deepStrictEqual(focusFaults("1.4", focus.text), [])
      const billed = parseCsv(focus.text).rows.reduce((all, { BilledCost }) => all + nano(BilledCost ?? ""), 0n)
      assert.strictEqual(String(billed), ledger?.total)
    })
  )

  for (const focusVersion of ["1.4", "1.2"] as const) {
    it.effect(`keeps the rules of FOCUS ${focusVersion}`, () =>
      Effect.gen(function* () {
        const { report, tenantId, write } = yield* setting
        const given = [...rows(0), ...rows(7)]
        yield* write(given)
        const { status, text } = yield* report({ format: "focus", focusVersion })
        assert.strictEqual(status, 200, text)
        assert.deepStrictEqual(focusFaults(focusVersion, text), [])
        const { rows: lines } = parseCsv(text)
        assert.strictEqual(
          lines.reduce((total, { BilledCost }) => total + nano(BilledCost ?? ""), 0n),
          sum(given)
        )
        assert.sameMembers(
          lines.map(({ ConsumedQuantity, ConsumedUnit, ListUnitPrice, SkuMeter }) =>
            [SkuMeter, ListUnitPrice, ConsumedQuantity, ConsumedUnit].join(" ")
          ),
          [
            "Input Tokens 1.25 1390 Tokens",
            "Cached Input Tokens 0.125 666 Tokens",
            "Output Tokens 10 160 Tokens",
            "Input Tokens 1.25 1999996 Tokens",
            "Cached Input Tokens 0.125 2 Tokens",
            "Output Tokens 10 2 Tokens",
            "Spend 1 0.266913578 US Dollars",
            "Spend 1 1.500000002 US Dollars",
            "Spend 1 -0.500000002 US Dollars"
          ]
        )
        assert.strictEqual(lines[0]?.BillingAccountId, tenantId)
        for (const [from, to] of [
          [/^BilledCost/, "Cost"],
          ["BillingAccountId,BillingAccountName", "BillingAccountName,BillingAccountId"],
          ["1000000 Tokens", "tokens"],
          [",USD,", ",,"],
          [",USD,", ",usd,"],
          ["Usage-Based", "Sometimes"],
          [",1.25,", ",1.26,"],
          ["T09:00:00Z", "T09:00:00.000Z"],
          ["AI and Machine Learning", "Compute"],
          ["spend/1", ""]
        ] as const) {
          const wrong = text.replace(from, to)
          assert.notStrictEqual(wrong, text, String(from))
          assert.isNotEmpty(focusFaults(focusVersion, wrong), `${from} as ${to}`)
        }
        assert.include(text, "'=1+1", "no spreadsheet takes a name for a formula")
      })
    )
  }

  it.effect("bills a call whose prices are not known by its cost, in FOCUS too", () =>
    Effect.gen(function* () {
      const { report, write } = yield* setting
      const call = { at: range.from, provider: "vllm", model: "of-no-price", input_tokens: 10, output_tokens: 5 }
      yield* write([{ ...call, method: "provider_usage", cost: 12_500 }])
      const { text } = yield* report({ format: "focus", columns: ["SkuId", "BilledCost"] })
      const billed = parseCsv(text).rows.map(({ BilledCost }) => nano(BilledCost ?? ""))
      assert.deepStrictEqual(billed, [12_500n])
    })
  )

  it.effect("has the columns that were chosen, and names those that a version does not have", () =>
    Effect.gen(function* () {
      const { report, write } = yield* setting
      yield* write(rows(0))
      const { text } = yield* report({ format: "focus", columns: ["SkuId", "BilledCost"] })
      assert.isTrue(text.startsWith("BilledCost,SkuId\r\n"), text)
      const other = yield* report({ format: "focus", columns: ["ProviderName"] })
      assertProblem(other, 400, "validation-failed")
      assert.include(other.text, "it has no ProviderName")
      const mixed = yield* report({ format: "csv", columns: ["SkuId"], focusVersion: "1.2" })
      assert.sameMembers([...faultPaths(mixed)], ["payload.columns", "payload.focusVersion"])
      assert.deepStrictEqual(faultPaths(yield* report({ format: "focus", groupBy: ["agent"] })), ["payload.groupBy"])
      assert.deepStrictEqual(faultPaths(yield* report({ format: "json", to: range.from })), ["payload.from"])
    })
  )

  it.effect("shows a tenant its own charges, and the system all or one tenant's", () =>
    Effect.gen(function* () {
      const mine = yield* setting
      const other = yield* setting
      yield* mine.write(rows(0))
      yield* other.write(rows(0))
      const foreign = yield* mine.report({ format: "json", tenantId: other.tenantId })
      assert.strictEqual(foreign.status, 403)
      const { key } = yield* makeKey(mine.service, ["insights:read"], {})
      const one = yield* mine.report({ format: "json", tenantId: other.tenantId, groupBy: ["tenant"] }, key)
      assert.deepStrictEqual(
        one.body.lines.map(({ tenantId }) => tenantId),
        [other.tenantId]
      )
      const all = yield* mine.report({ format: "json", groupBy: ["tenant"] }, key)
      assert.includeMembers(
        all.body.lines.map(({ tenantId }) => tenantId),
        [mine.tenantId, other.tenantId]
      )
    })
  )

  it.effect("is signed with a key of the installation, in the body of JSON and under a URL of its own", () =>
    Effect.gen(function* () {
      const { key, report, service, write } = yield* setting
      yield* write(rows(0))
      const keys = (yield* service.call("GET", "/.well-known/attestation-keys.json")).body.keys
      const check = (envelope: StatementEnvelope, body: string) => {
        const payload = Buffer.from(envelope.payload, "base64")
        const signed = Buffer.concat([
          Buffer.from(`DSSEv1 ${envelope.payloadType.length} ${envelope.payloadType} ${payload.byteLength} `),
          payload
        ])
        const { keyid, sig } = envelope.signatures[0]!
        const jwk = keys.find(({ kid }: { kid: string }) => kid === keyid)
        const publicKey = crypto.createPublicKey({ key: jwk, format: "jwk" })
        assert.isTrue(crypto.verify(null, signed, publicKey, Buffer.from(sig, "base64")))
        const { predicateType, subject } = JSON.parse(payload.toString())
        assert.strictEqual(predicateType, "https://application-manager.dev/billing-report/v1")
        assert.strictEqual(subject[0].digest.sha256, crypto.createHash("sha256").update(body).digest("hex"))
      }
      const csv = yield* report({ format: "focus", sign: true })
      const [, url = ""] = /^<(.+)>; rel="describedby"$/.exec(csv.headers.get("link") ?? "") ?? []
      const stored = yield* service.call("GET", url, { key })
      assert.strictEqual(stored.status, 200, stored.text)
      check(stored.body, csv.text)

      const json = yield* report({ format: "json", sign: true })
      check(json.body.statement, `${json.text.slice(0, json.text.indexOf(',"statement":'))}}`)

      const stranger = yield* setting
      assertProblem(yield* service.call("GET", url, { key: stranger.key }), 404, "billing-statement-not-found")
    })
  )
})
