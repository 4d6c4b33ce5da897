import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { untilAllLinked, writeEntries } from "../../support/chain.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const path = "/api/audit-logs/export"

interface Line {
  readonly id: string
  readonly sequence: number
  readonly entityId: string | null
  readonly actionType: string
  readonly userId: string
  readonly tenantId: string | null
  readonly occurredAt: string
  readonly changes: { readonly after: Record<string, unknown> | null } | null
}

/** The entries of an export, without the seal at its end. */
const linesOf = (text: string): ReadonlyArray<Line> =>
  text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith('{"seal":'))
    .map((line) => JSON.parse(line))

const exported = Effect.fnUntraced(function* (query = "", key?: string) {
  const service = yield* TestService
  const answer = yield* service.call("GET", `${path}${query}`, key === undefined ? {} : { key })
  assert.strictEqual(answer.status, 200, answer.text)
  return answer
})

const write = Effect.fnUntraced(function* (count: number, prefix: string) {
  const { database } = yield* TestService
  yield* asSuperuser(database, (sql) => writeEntries(sql, count, prefix))
  return yield* untilAllLinked(database)
})

/** Rows of CSV with their cells, by RFC 4180. */
const rowsOf = (text: string): ReadonlyArray<ReadonlyArray<string>> => {
  const rows: Array<Array<string>> = []
  let row: Array<string> = []
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    row.push(quoted === undefined ? (plain ?? "") : quoted.replaceAll('""', '"'))
    if (end === ",") continue
    rows.push(row)
    row = []
  }
  return rows
}

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("the export of the audit log", (it) => {
  refusesStrangers(it, [{ name: "export", method: "GET", path, capability: "audit-logs:export", systemOnly: false }])

  it.effect("200: without a filter it is the whole chain in its order, with the entry of the export at its end", () =>
    Effect.gen(function* () {
      yield* write(5000, "many")
      const answer = yield* exported()
      assert.strictEqual(answer.headers.get("content-type"), "application/x-ndjson")
      assert.match(
        answer.headers.get("content-disposition") ?? "",
        /^attachment; filename="audit-log-\d{4}-\d\d-\d\d\.jsonl"$/
      )
      const lines = linesOf(answer.text)
      assert.deepStrictEqual(
        lines.map(({ sequence }) => sequence),
        lines.map((_, index) => index + 1)
      )
      const last = lines.findLast(({ actionType }) => actionType === "AuditLogExported")
      assert.isAbove(last?.sequence ?? 0, 5000)
      assert.deepInclude(last, { userId: "service-account", entityId: "jsonl" })
    })
  )

  it.effect("200: a line has every member of the entry, its time to the microsecond, and the two hashes", () =>
    Effect.gen(function* () {
      yield* write(1, "whole")
      const [line] = linesOf((yield* exported("?entityId=whole%201")).text)
      assert.hasAllKeys(line, [
        "actionType",
        "actorType",
        "applicationId",
        "changes",
        "count",
        "entityId",
        "entityType",
        "hash",
        "id",
        "ipAddress",
        "occurredAt",
        "outcome",
        "previousHash",
        "reason",
        "sequence",
        "tenantId",
        "traceId",
        "userAgent",
        "userId"
      ])
      assert.match(line?.occurredAt ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$/)
    })
  )

  it.effect("200: the filters of the list hold, in the order of time, and the entry of the export tells them", () =>
    Effect.gen(function* () {
      yield* write(3, "filtered")
      const lines = linesOf(
        (yield* exported("?entityId=filtered%202&outcome=success&startDate=2000-01-01T00:00:00Z")).text
      )
      assert.deepStrictEqual(
        lines.map(({ entityId }) => entityId),
        ["filtered 2"]
      )
      const [own] = linesOf((yield* exported("?actionType=AuditLogExported")).text).slice(-2)
      assert.deepStrictEqual(own?.changes?.after, {
        format: "jsonl",
        filter: { entityId: "filtered 2", outcome: "success", startDate: "2000-01-01T00:00:00.000Z" }
      })
      assert.deepStrictEqual(linesOf((yield* exported("?entityId=nobody")).text), [])
      const all = linesOf((yield* exported("?startDate=2000-01-01T00:00:00Z")).text).map(({ occurredAt }) => occurredAt)
      assert.deepStrictEqual(all, all.toSorted())
    })
  )

  it.effect("200: a tenant's key exports the entries of its tenant only", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["audit-logs:*"], { tenantId })
      yield* makeKey(service, [], { tenantId: yield* makeTenant(service.database) })
      const lines = linesOf((yield* exported("", key)).text)
      assert.deepStrictEqual(lines.map(({ actionType }) => actionType).toSorted(), [
        "ApiKeyCreated",
        "AuditLogExported"
      ])
      assert.isTrue(lines.every((line) => line.tenantId === tenantId))
    })
  )

  it.effect("200: CSV has a header, quotes what needs it, and leaves no cell that is a formula", () =>
    Effect.gen(function* () {
      const { database } = yield* TestService
      const texts = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", "＝1", 'say "a", b\r\nc', "plain", "'=1"]
      yield* asSuperuser(
        database,
        (sql) => sql`
          INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, outcome,
            user_agent, transaction_id)
          SELECT now(), 'UserCreated', 'TrialUser', 'csv ' || lpad(i::text, 2, '0'), 'system', 'system', 'success', text,
            pg_current_xact_id()
          FROM json_array_elements_text(${JSON.stringify(texts)}::json) WITH ORDINALITY AS t(text, i)`
      )
      yield* untilAllLinked(database)
      const answer = yield* exported("?format=csv&userId=system&entityType=TrialUser")
      assert.strictEqual(answer.headers.get("content-type"), "text/csv; charset=utf-8")
      const [header = [], ...rows] = rowsOf(answer.text)
      assert.deepStrictEqual(header.slice(0, 4), ["sequence", "id", "occurredAt", "actionType"])
      assert.isTrue(rows.every((row) => row.length === header.length))
      const cells = rows
        .map((row) => Object.fromEntries(header.map((name, index) => [name, row[index] ?? ""])))
        .filter(({ entityId }) => entityId?.startsWith("csv "))
        .toSorted((a, b) => (a.entityId ?? "").localeCompare(b.entityId ?? ""))
        .map(({ userAgent }) => userAgent)
      assert.deepStrictEqual(
        cells,
        texts.map((text) => (/^[=+\-@\t\r\n＝]/.test(text) ? `'${text}` : text))
      )
    })
  )

  it.effect("200: a client that goes away ends its export, and the next is whole", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* write(20_000, "left")
      yield* Effect.promise(async () => {
        const response = await fetch(`${service.url}${path}`, { headers: { "x-api-key": service.serviceKey } })
        const reader = response.body?.getReader()
        await reader?.read()
        await reader?.cancel()
      })
      const lines = linesOf((yield* exported()).text)
      assert.isAbove(lines.length, 20_000)
      assert.strictEqual(lines.at(-1)?.sequence, lines.length)
    })
  )
})
