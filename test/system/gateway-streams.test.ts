import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as http from "node:http"
import { configure, model, spender } from "../support/gateway.ts"
import { type ProviderStandIn, startProvider } from "../support/provider.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

type Service = TestService["Service"]

const streams = 500
const rounds = 20
/** A round that takes longer is a stall, also on a machine that is busy otherwise. */
const longestRoundMillis = 5_000
const longestAbortMillis = 2_000

const chunk = (content: string, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta: { role: "assistant", content }, finish_reason }] })}\n\n`
const ending = `${chunk("", "stop")}data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 10, completion_tokens: rounds } })}\n\ndata: [DONE]\n\n`

/** A client that counts the words it heard. */
const startClient = (url: string, key: string) => {
  const client = { words: 0, ended: false, status: 0, leave: () => {} }
  const body = JSON.stringify({
    model: "gpt",
    stream: true,
    max_tokens: 100,
    messages: [{ role: "user", content: "Hi" }]
  })
  const request = http.request(
    `${url}/v1/chat/completions`,
    { method: "POST", agent: false, headers: { "x-api-key": key, "content-type": "application/json" } },
    (response) => {
      client.status = response.statusCode ?? 0
      response.setEncoding("utf8")
      response.on("data", (text: string) => {
        client.words += text.split('"content":"word"').length - 1
        if (text.includes("[DONE]")) client.ended = true
      })
      response.on("error", () => {})
    }
  )
  request.on("error", () => {})
  request.end(body)
  client.leave = () => request.destroy()
  return client
}

const states = ({ database }: Service, tenantId: string) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly state: string; readonly method: string | null; readonly count: number }>`
      SELECT r.state, u.method::text, count(*)::integer AS count FROM budget_reservations r
      LEFT JOIN usage_rows u ON u.tenant_id = r.tenant_id AND u.reservation_id = r.id
      WHERE r.tenant_id = ${tenantId} GROUP BY 1, 2 ORDER BY 2`
  )

const timed = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const startedAt = performance.now()
    yield* work
    return performance.now() - startedAt
  })

const all = (isSo: () => boolean) => eventually(Effect.sync(isSo), (so) => so)

layer(serviceLayer(), { excludeTestServices: true, timeout: "300 seconds" })("many streams at once", (it) => {
  it.effect("go on word for word, and those whose client left are given up at once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const open: Array<http.ServerResponse> = []
      const standIn: ProviderStandIn = yield* startProvider((_, response) => {
        response.writeHead(200, { "content-type": "text/event-stream" })
        response.flushHeaders()
        open.push(response)
        response.write(chunk("word"))
      })
      const provider = { id: "oa", dialect: "openai", baseUrl: `${standIn.url}/v1` }
      yield* configure(service, [provider], [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [{ limit: 1000 }])
      const clients = Array.from({ length: streams }, () => startClient(service.url, key))
      const started = yield* timed(all(() => clients.every(({ words }) => words === 1)))
      assert.isTrue(clients.every(({ status }) => status === 200))
      let longest = 0
      // The provider says the next word when everybody has heard the last one.
      for (let round = 2; round <= rounds; round++) {
        for (const response of open) response.write(chunk("word"))
        longest = Math.max(longest, yield* timed(all(() => clients.every(({ words }) => words === round))))
      }
      assert.isBelow(longest, longestRoundMillis)
      const leaving = clients.filter((_, index) => index % 2 === 0)
      for (const { leave } of leaving) leave()
      const left = yield* timed(all(() => standIn.aborted === leaving.length))
      assert.isBelow(left, longestAbortMillis)
      for (const response of open) if (!response.destroyed) response.end(ending)
      yield* all(() => clients.filter(({ ended }) => ended).length === streams - leaving.length)
      const rows = yield* eventually(states(service, tenantId), (found) =>
        found.every(({ state }) => state === "settled")
      )
      assert.deepStrictEqual(
        rows.map(({ count, method }) => [method, count]),
        [
          ["aborted", leaving.length],
          ["provider_usage", streams - leaving.length]
        ]
      )
      const figures = { started, longest, left }
      yield* Effect.logInfo("500 streams, milliseconds", figures)
    }).pipe(Effect.scoped)
  )
})
