import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { renaming, responsesScope } from "../../src/gateway/json/kept-ids.ts"
import { ask, configure, model, provider, spender } from "../support/gateway.ts"
import { sse, startProvider } from "../support/provider.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"
import { anthropicVendor, openAiVendor } from "../support/vendors.ts"

const ones = "1,".repeat(400_000)
const empty = '{"role":"user","content":""},'
const objects = Array.from({ length: 25_000 }, (_, at) => `{"k${at}":1}`).join()
const members = Array.from({ length: 10_000 }, (_, at) => `"k${at}":1`).join()

const partsOf = (type: string, length: number) => Array.from({ length }, () => ({ type, text: "a" }))
const system = { role: "system", content: partsOf("text", 130_000) }
const user = (content: ReadonlyArray<object>) => ({ role: "user", content })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("input without end", (it) => {
  for (const [what, path, body] of [
    ["native messages", "/api/llm/complete", `{"model":"gpt","messages":[${ones}1]}`],
    ["messages", "/v1/chat/completions", `{"model":"gpt","messages":[${ones}1]}`],
    ["items", "/v1/responses", `{"model":"gpt","input":[${ones}1]}`],
    ["empty messages", "/v1/messages", `{"model":"gpt","max_tokens":1,"messages":[${empty.repeat(100_000)}{}]}`],
    ["empty items", "/v1/responses", `{"model":"gpt","input":[${empty.repeat(100_000)}{}]}`],
    ["values", "/v1/chat/completions", `{"model":"gpt","messages":[${ones}${ones}${ones}1]}`],
    ["members", "/v1/chat/completions", `{"model":"gpt",${members}}`],
    ["names", "/v1/chat/completions", `{"model":"gpt","messages":[{"role":"user","content":"Hi"}],"x":[${objects}]}`],
    ["native members", "/api/llm/complete", `{"model":"gpt",${members}}`]
  ] as const) {
    it.effect(`${what} of a caller are 400 with few words`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const openai = yield* startProvider(openAiVendor)
        yield* configure(service, [provider("oa", openai)], [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [{ limit: 1 }])
        const answer = yield* service.call("POST", path, { key, body })
        assert.strictEqual(answer.status, 400, answer.text.slice(0, 1000))
        assert.isBelow(answer.text.length, 5000)
        assert.isEmpty(openai.requests)
      }).pipe(Effect.scoped)
    )
  }

  for (const [dialect, vendor] of Object.entries({ openai: openAiVendor, anthropic: anthropicVendor })) {
    it.effect(`as many parts as a body may have are passed on and translated for ${dialect}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(vendor)
        yield* configure(service, [provider("oa", standIn, { dialect })], [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [{ limit: 1000 }])
        for (const [path, body] of Object.entries({
          "/v1/chat/completions": { messages: [system, user(partsOf("text", 200_000))] },
          "/v1/messages": { max_tokens: 9, system: system.content, messages: [user(partsOf("text", 200_000))] },
          "/v1/responses": { input: [user(partsOf("input_text", 200_000))] }
        })) {
          const answer = yield* service.call("POST", path, { key, body: { model: "gpt", ...body } })
          assert.strictEqual(answer.status, 200, answer.text.slice(0, 1000))
        }
      }).pipe(Effect.scoped)
    )
  }

  it.effect("values in a provider's answer make it unreadable", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        response.end(`{"choices":[],"x":[${"1,".repeat(4_000_000)}1]}`)
      })
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key } = yield* spender(service, [{ limit: 1 }])
      const answer = yield* ask(service, key)
      assert.strictEqual(answer.status, 502, answer.text.slice(0, 1000))
    }).pipe(Effect.scoped)
  )

  it.effect("words in a provider's stream end the response that is made of it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const words = "a".repeat(2 ** 20)
      const standIn = yield* startProvider((_, response) => {
        sse(
          response,
          Array.from({ length: 20 }, () => ({ choices: [{ index: 0, delta: { content: words } }] }))
        )
      })
      yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
      const { key } = yield* spender(service, [{ limit: 1 }])
      const text = yield* Effect.promise(async () => {
        const response = await fetch(`${service.url}/v1/responses`, {
          method: "POST",
          headers: { "x-api-key": key, "content-type": "application/json" },
          body: JSON.stringify({ model: "gpt", stream: true, input: "Hi" })
        })
        return response.text()
      })
      assert.include(text.slice(text.lastIndexOf("event: ")), "event: response.failed")
    }).pipe(Effect.scoped)
  )
})

const rename = (id: string) => `our_${id}`
const itemsWith = (named: (id: string) => string) =>
  Array.from({ length: 50_000 }, (_, at) => ({ id: named(`msg_${at}`), text: `"id":"msg_${at}"`, other: "resp_1" }))

describe("ids in an answer", () => {
  it("are renamed in one pass, as members and not in texts", () => {
    const response = { id: "resp_1", output: itemsWith((id) => id) }
    const renamed = renaming(responsesScope, rename)(JSON.stringify(response), response)
    assert.deepStrictEqual(JSON.parse(renamed), { id: "our_resp_1", output: itemsWith(rename) })
  })
})
