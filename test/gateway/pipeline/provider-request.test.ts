import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { gatewaySnapshot } from "../../../src/gateway/configuration/gateway-snapshot.ts"
import { type Dialect } from "../../../src/gateway/formats/domain.ts"
import { providerRequest } from "../../../src/gateway/pipeline/provider-request.ts"
import { chatFormats, knownModel, spokenDialects } from "../../support/formats.ts"
import { runningLoopback } from "../../support/loopback.ts"
import { readableSeals } from "../../support/turn-seals.ts"

const [model] = gatewaySnapshot({}, null, runningLoopback, [], []).models

const sent = Effect.fnUntraced(function* (
  text: string,
  limit: number | undefined,
  vendor?: string,
  name?: string,
  dialect: Dialect = "openai"
) {
  if (model?.targets[0] === undefined) throw new Error("There is no loopback model")
  const [own] = model.targets
  const target = {
    ...own,
    ...knownModel(name ?? own.model, vendor),
    provider: { ...own.provider, vendor, speaks: spokenDialects[dialect] }
  }
  const body = JSON.parse(text)
  const bytes = new TextEncoder().encode(text)
  const out = yield* providerRequest(
    {
      format: chatFormats[dialect],
      model: body.model,
      streams: body.stream === true,
      body,
      bytes,
      states: readableSeals
    },
    target,
    {
      limit,
      outputTokens: 10,
      toolLimit: undefined
    }
  )
  return typeof out === "string" ? out : Buffer.from(out).toString("utf8")
})

const conversation = (messages: string) => `{"model":"claude","messages":${messages},"n":1.10}`
const said = (...blocks: ReadonlyArray<string>) => `{"content":[${blocks.join(" , ")}],"role":"assistant"}`

describe("a request in its provider's own dialect", () => {
  it.effect("leaves byte for byte where nothing is to be changed", () =>
    Effect.gen(function* () {
      const text = ' { "model" : "loopback-1", "messages": [{"role":"user","content":"\\u00e9 é"}],"unknown":1.0 }\n'
      assert.strictEqual(yield* sent(text, undefined), text)
    })
  )

  it.effect("keeps its bytes beside members that are added", () =>
    Effect.gen(function* () {
      const text = ' { "model" : "loopback-1", "messages":[],"unknown":1.0, "stream":true}'
      assert.strictEqual(
        yield* sent(text, 7),
        ' {"max_completion_tokens":7,"stream_options":{"include_usage":true}, "model" : "loopback-1", "messages":[],"unknown":1.0, "stream":true}'
      )
    })
  )

  it.effect("has no member twice where one is changed", () =>
    Effect.gen(function* () {
      const text = '{"model":"loopback","max_completion_tokens":null,"stream":true,"stream_options":{"other":1}}'
      assert.strictEqual(
        yield* sent(text, 7),
        '{"model":"loopback-1","max_completion_tokens":7,"stream":true,"stream_options":{"include_usage":true,"other":1}}'
      )
    })
  )

  it.effect("keeps every other byte under an alias", () =>
    Effect.gen(function* () {
      const rest =
        '"seed":9007199254740993,  "messages":[{"role":"assistant","content":[{"type":"tool_use","input":{"price":1.10}}]}]}'
      assert.strictEqual(yield* sent(`{"model": "alias",${rest}`, undefined), `{"model": "loopback-1",${rest}`)
      const given = '"stream":true,"stream_options":{"include_usage":false,"other":1.10},'
      assert.strictEqual(
        yield* sent(`{"model":"alias",${given}${rest}`, undefined),
        `{"model":"loopback-1",${given.replace("false", "true")}${rest}`
      )
    })
  )

  it.effect("keeps every other byte where a limit goes by its older name", () =>
    Effect.gen(function* () {
      const limited = '{"model":"m","messages":[],"max_completion_tokens":5 ,"price":1.10}'
      assert.strictEqual(
        yield* sent(limited, undefined, "mistral", "m"),
        '{"max_tokens":5,"model":"m","messages":[] ,"price":1.10}'
      )
    })
  )

  it.effect("goes to Anthropic without thoughts that bear no signature", () =>
    Effect.gen(function* () {
      const sentTo = (messages: string) => sent(conversation(messages), undefined, undefined, "claude", "anthropic")
      const user = '{"role":"user","content":"Hello"}'
      const unsigned = '{"type":"thinking","thinking":"Hm.","signature":""}'
      const bare = '{"type":"thinking","thinking":"Hm."}'
      const signed = '{"type":"thinking", "thinking":"", "signature":"sig"}'
      const text = '{"type":"text","text":"a",  "price":1.10}'
      const signedTurn = `[${user},${said(signed, text)}]`
      assert.strictEqual(yield* sentTo(signedTurn), conversation(signedTurn))
      assert.strictEqual(
        yield* sentTo(`[${user}, ${said(unsigned, text)} ,${said(bare)},${user}, ${said(text, unsigned, signed)}]`),
        conversation(`[${user}, ${said(text)},${user}, ${said(text, signed)}]`)
      )
    })
  )

  it.effect("is limited by the member that its provider reads", () =>
    Effect.gen(function* () {
      const none = '{"messages":[]}'
      const newer = '{"max_completion_tokens":5,"messages":[]}'
      for (const [vendor, name, member, kept] of [
        ["openai", "m", "max_completion_tokens", "max_completion_tokens"],
        ["azure-eu", "m", "max_completion_tokens", "max_completion_tokens"],
        ["mistral-ai", "m", "max_tokens", "max_tokens"],
        ["ollama", "llama", "max_tokens", "max_tokens"],
        ["mine", "llama", "max_tokens", "max_completion_tokens"],
        ["my-proxy", "openai/o3-mini", "max_completion_tokens", "max_completion_tokens"]
      ] as const) {
        const added = JSON.parse(String(yield* sent(none, 7, vendor, name)))
        assert.deepStrictEqual(added, { model: name, [member]: 7, messages: [] })
        const asked = JSON.parse(String(yield* sent(newer, undefined, vendor, name)))
        assert.deepStrictEqual(asked, { model: name, [kept]: 5, messages: [] })
      }
    })
  )
})
