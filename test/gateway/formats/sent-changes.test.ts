import { assert, describe, it } from "@effect/vitest"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { type FormatTarget, type SentLimits, type WireFormat } from "../../../src/gateway/formats/format.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { openAiCompletions } from "../../../src/gateway/formats/openai-completions/format.ts"
import { openAiEmbeddings } from "../../../src/gateway/formats/openai-embeddings/format.ts"
import { openAiResponses } from "../../../src/gateway/formats/openai-responses/format.ts"
import { cacheKeyMembers } from "../../../src/gateway/formats/sent-changes.ts"
import { type Json } from "../../../src/kernel/json/parsed-json.ts"
import { knownModel } from "../../support/formats.ts"

const messages = [{ role: "user", content: "Hi" }]
const requests: ReadonlyArray<readonly [string, WireFormat, Json]> = [
  ["a chat completion", openAiChat, { messages }],
  ["a text completion", openAiCompletions, { prompt: "Hi" }],
  ["an embedding", openAiEmbeddings, { input: "Hi" }],
  ["a response", openAiResponses, { input: "Hi" }],
  ["a message", anthropicMessages, { messages, max_tokens: 10 }]
]

const router: FormatTarget = {
  ...knownModel("a-model"),
  provider: { vendor: "openrouter", costPath: ["usage", "cost"] },
  rates: { basic: { input: 1_000_000_000n, output: 10_000_000_000n }, toolFees: {} }
}
const limits: SentLimits = { limit: undefined, outputTokens: 10, toolLimit: undefined, pinsService: true }

const sentBy = (format: WireFormat, body: Json, target: FormatTarget, given: Partial<SentLimits> = {}): Json => {
  const bytes = new TextEncoder().encode(JSON.stringify(body))
  const request = { body, bytes, model: "asked", streams: false }
  return JSON.parse(Buffer.from(format.edit(request, target, { ...limits, ...given })).toString())
}

describe.each(requests)("%s", (_, format, request) => {
  const body = { model: "asked", ...request }

  it("has the prices that are held as the most that a router may choose, where a hard cap in money applies", () => {
    const held = { prompt: 1, completion: 10, request: 0 }
    assert.deepStrictEqual(sentBy(format, body, router).provider, { max_price: held })
    assert.notProperty(sentBy(format, body, router, { pinsService: false }), "provider")
    assert.notProperty(sentBy(format, body, { ...router, provider: { vendor: "openrouter" } }), "provider")
    // A lower price of the caller stays; what is charged for a request is one, too.
    const own = { ...body, provider: { sort: "price", max_price: { prompt: 0.5, completion: 99, request: 1 } } }
    const fee = { basic: router.rates!.basic, toolFees: { webSearch: 5_000_000n, webSearchUnit: "request" as const } }
    assert.deepStrictEqual(sentBy(format, own, { ...router, rates: fee }).provider, {
      sort: "price",
      max_price: { prompt: 0.5, completion: 10, request: 0.005 }
    })
  })

  it("never has a caller's own name of a session in the cache of an account that others share", () => {
    for (const member of cacheKeyMembers) {
      const sent = sentBy(format, { ...body, [member]: "mine" }, router, { cacheKey: "digest" })
      assert.strictEqual(sent[member], "digest", member)
      const refuses = { ...router, traits: { ...router.traits, refuses: new Set([member]) } }
      assert.notProperty(sentBy(format, { ...body, [member]: "mine" }, refuses, { cacheKey: "digest" }), member)
    }
  })
})
