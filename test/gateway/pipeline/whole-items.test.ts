import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider, readAll, spender, usageRows } from "../../support/gateway.ts"
import { sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const words = "All work and no play makes Jack a dull boy. ".repeat(20)
const message = { id: "msg_1", type: "message", role: "assistant", content: [{ type: "output_text", text: words }] }
const call = { id: "fc_1", type: "function_call", call_id: "c", name: "weather", arguments: JSON.stringify({ words }) }

const added = (item: object) => ({
  type: "response.output_item.added",
  output_index: 0,
  item: { ...item, content: [] }
})
const delta = (at: object) => ({ type: "response.output_text.delta", content_index: 0, delta: words, ...at })
const done = (item: object, at: object = { output_index: 0 }) => ({ type: "response.output_item.done", item, ...at })
const completed = (output: ReadonlyArray<object>) => ({
  type: "response.completed",
  response: { id: "resp_1", object: "response", status: "completed", output }
})

/** The same answer, by events of which some servers leave out one or the other. */
const streams: ReadonlyArray<readonly [string, ReadonlyArray<object>]> = [
  ["in deltas alone", [added(message), delta({ output_index: 0, item_id: "msg_1" }), completed([])]],
  ["in deltas and whole", [added(message), delta({ output_index: 0 }), done(message), completed([message])]],
  [
    "in deltas without a place, and whole",
    [added(message), delta({ item_id: "msg_1" }), done(message), completed([message])]
  ],
  ["in whole items", [added(message), done(message), completed([])]],
  ["in whole items without a place", [done(message, {}), completed([message])]],
  ["in the last event alone", [completed([message])]],
  ["in an item that nothing follows", [added(message), done(message)]]
]

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a response without a usage", (it) => {
  for (const path of ["/v1/responses", "/v1/chat/completions"]) {
    it.effect(`is charged what it says, once, in whatever events it stands (${path})`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        let events: ReadonlyArray<object> = []
        const standIn = yield* startProvider((_, response) => {
          sse(response, events)
          response.end()
        })
        yield* configure(service, [provider("re", standIn, { apis: ["responses"] })], [model("gpt", ["re"])])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const body = path.endsWith("responses")
          ? { model: "gpt", input: "Hi", stream: true, store: false, max_output_tokens: 4000 }
          : { model: "gpt", messages: [{ role: "user", content: "Hi" }], stream: true, max_tokens: 4000 }
        const expected = new Map([...streams, ["as a call", [done(call), completed([call])]] as const])
        const tokens: Record<string, number> = {}
        for (const [name, given] of expected) {
          events = given
          const calls = Object.keys(tokens).length
          yield* readAll(service, key, path, body)
          const rows = yield* eventually(usageRows(service, tenantId), ({ length }) => length > calls)
          assert.strictEqual(rows.at(-1)?.method, "estimated", name)
          tokens[name] = rows.at(-1)?.outputTokens
        }
        const { "as a call": called = 0, ...texts } = tokens
        assert.strictEqual(new Set(Object.values(texts)).size, 1, JSON.stringify(tokens))
        assert.isAbove(Object.values(texts)[0] ?? 0, 150)
        assert.isAbove(called, 150)
      }).pipe(Effect.scoped)
    )
  }
})
