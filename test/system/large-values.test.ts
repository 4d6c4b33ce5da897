import { PgProtocol } from "@effect/sql-pg"
import { assert, describe, it as itIs, layer } from "@effect/vitest"
import { Cause, Effect } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { problemOf } from "../../src/platform/http/failures.ts"
import { poolOnOwnDatabase } from "../support/clock.ts"
import { makeApplication, makeFile, save } from "../support/configuration.ts"
import { ask, configure, model, provider, spender } from "../support/gateway.ts"
import { json, startProvider } from "../support/provider.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { openAiVendor } from "../support/vendors.ts"

const mebibyte = 1024 * 1024
/** What a connection reads unless it is given a limit of its own. */
const usual = PgProtocol.defaultMaxMessageSize

layer(poolOnOwnDatabase, { excludeTestServices: true, timeout: "60 seconds" })("the pool", (it) => {
  it.effect("reads values of any length that is stored", () =>
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      for (const length of [usual, 40 * mebibyte]) {
        const [row] = yield* sql<{ readonly text: string; readonly bytes: Uint8Array }>`
          SELECT repeat('x', ${length}::integer) AS text, convert_to(repeat('x', ${length}::integer), 'UTF8') AS bytes`
        assert.deepStrictEqual([row?.text.length, row?.bytes.length], [length, length])
      }
      assert.lengthOf(yield* sql`SELECT 1`, 1)
    })
  )
})

const largestTurn = 20 * mebibyte

const service = serviceLayer({
  Llm__Gateway__LogContent: "true",
  Llm__Gateway__MaxBodyBytes: `${64 * mebibyte}`,
  Llm__Gateway__StoredResponses__MaxTurnBytes: `${largestTurn}`,
  Llm__Gateway__StoredResponses__MaxBytes: `${2 * largestTurn}`
})

const withProvider = Effect.gen(function* () {
  const service = yield* TestService
  const standIn = yield* startProvider(openAiVendor)
  yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
  const { key } = yield* spender(service, [])
  return { key, service, standIn }
})

layer(service, { excludeTestServices: true, timeout: "120 seconds" })("what is stored can be read again", (it) => {
  it.effect("a response of the largest size, its input, and the next turn", () =>
    Effect.gen(function* () {
      const { key, service, standIn } = yield* withProvider
      const create = (body: object) =>
        service.call("POST", "/v1/responses", { key, body: { model: "gpt", max_output_tokens: 20, ...body } })
      const text = "x".repeat(largestTurn - 4096)
      const made = yield* create({ input: text })
      assert.deepStrictEqual([made.status, made.body.store], [200, true])
      const { id } = made.body
      assert.strictEqual((yield* service.call("GET", `/v1/responses/${id}`, { key })).status, 200)
      const items = yield* service.call("GET", `/v1/responses/${id}/input_items`, { key })
      assert.strictEqual(items.body.data[0].content.length, text.length)
      const next = yield* create({ input: "Hi", previous_response_id: id })
      assert.strictEqual(next.status, 200, next.text.slice(0, 500))
      assert.strictEqual(standIn.requests.at(-1)?.body.messages[0].content.length, text.length)
      const larger = yield* create({ input: `${text}${"x".repeat(4096)}` })
      assert.deepStrictEqual([larger.status, larger.body.error.type], [400, "invalid_request_error"])
    }).pipe(Effect.scoped)
  )

  it.effect("a transcript of a request and an answer that are longer as JSON", () =>
    Effect.gen(function* () {
      const { key, service, standIn } = yield* withProvider
      const quotes = '"'.repeat(mebibyte)
      standIn.answer = (_, response) => {
        const choices = [{ index: 0, message: { role: "assistant", content: quotes }, finish_reason: "stop" }]
        json(response, 200, { id: "c", choices, usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 } })
      }
      const called = yield* ask(service, key, { messages: [{ role: "user", content: quotes }] })
      const id = called.headers.get("x-reservation-id") ?? ""
      const shown = yield* service.call("GET", `/api/llm/admin/contents/${id}`)
      assert.strictEqual(shown.status, 200, shown.text.slice(0, 500))
      assert.deepStrictEqual(
        [shown.body.request.length, shown.body.response.length, shown.body.truncated],
        [mebibyte, mebibyte, true]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("the answer to an import under an Idempotency-Key, which has every path", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      const folder = Array.from({ length: 63 }, (_, depth) => `/${"d".repeat(250)}${depth}`).join("")
      const nodes = Array.from({ length: 1100 }, (_, index) => ({
        path: `${folder}/${index}`,
        type: "file",
        content: ""
      }))
      const send = service.call("POST", `/api/configuration/import?applicationId=${applicationId}`, {
        headers: { "idempotency-key": "once" },
        body: { nodes }
      })
      const imported = yield* send
      assert.strictEqual(imported.status, 200, imported.text.slice(0, 500))
      assert.isAbove(imported.text.length, usual)
      const replayed = yield* send
      assert.deepStrictEqual([replayed.status, replayed.headers.get("idempotency-replayed")], [200, "true"])
      assert.strictEqual(replayed.text.length, imported.text.length)
    })
  )

  it.effect("a tree of files that are larger together, and all versions of a file", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      // Each has the most that a file may have.
      const ids = yield* Effect.forEach([..."abcdefghijklmnopqr"], (letter) =>
        makeFile(service, applicationId, letter, letter.repeat(mebibyte))
      )
      const exported = yield* service.call("GET", `/api/configuration/export?applicationId=${applicationId}`)
      assert.strictEqual(exported.status, 200)
      assert.isAbove(exported.text.length, usual)
      const [id = 0] = ids
      for (const letter of "stuvwxyzABCDEFGHI") yield* save(service, id, letter.repeat(mebibyte))
      const versions = yield* service.call("GET", `/api/configuration/${id}/versions?limit=50`)
      assert.strictEqual(versions.status, 200, versions.text.slice(0, 500))
    })
  )
})

const detailOf = (reason: SqlError.SqlError["reason"]) => problemOf(Cause.die(new SqlError.SqlError({ reason })))

describe("a limit of the database's protocol, or of a statement", () => {
  itIs("is not reported as a database that is unavailable", () => {
    const header = Uint8Array.of(0x44, 0, 0, 1, 0)
    let cause: unknown
    try {
      PgProtocol.makeParser({ maxMessageSize: 100 }).push(header)
    } catch (error) {
      cause = error
    }
    const tooLong = detailOf(new SqlError.ConnectionError({ cause, message: "No.", operation: "execute" }))
    assert.strictEqual(tooLong?.status, 500)
    assert.include(tooLong?.detail, "larger than the service reads")
    const lost = detailOf(new SqlError.ConnectionError({ cause: new Error(), message: "No.", operation: "execute" }))
    assert.strictEqual(lost?.status, 503)
    assert.include(lost?.detail, "The database is unavailable.")
    const late = detailOf(
      new SqlError.StatementTimeoutError({ cause: new Error(), message: "No.", operation: "execute" })
    )
    assert.strictEqual(late?.status, 503)
    assert.include(late?.detail, "Database:StatementTimeoutSeconds")
  })
})
