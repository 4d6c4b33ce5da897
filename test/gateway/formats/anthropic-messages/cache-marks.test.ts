import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import {
  cacheMarkEdits,
  cacheMarks,
  withCacheMarks
} from "../../../../src/gateway/formats/anthropic-messages/prompt-cache/marks.ts"
import { edited } from "../../../../src/gateway/json/json-edits.ts"
import { diceOf, type Dice } from "../../../contract/dice.ts"
import { knownModel } from "../../../support/formats.ts"
import { ask, configure, model, spender } from "../../../support/gateway.ts"
import { startProvider } from "../../../support/provider.ts"
import { serviceLayer, TestService } from "../../../support/service.ts"
import { anthropicVendor } from "../../../support/vendors.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- JSON of any shape
type Any = any

const long = "All work and no play makes Jack a dull boy. ".repeat(400)
const text = (said: string) => ({ type: "text", text: said })
const weather = { name: "weather", input_schema: { type: "object" } }
const turns = (count: number, first = "Hi") =>
  Array.from({ length: count }, (_, index) => ({
    role: index % 2 === 0 ? "user" : "assistant",
    content: [text(index === 0 ? first : `turn ${index}`)]
  }))
const paths = (body: object, minTokens = 4096, isOfSession = false) =>
  cacheMarks({ ...body }, minTokens, isOfSession).map((path) => path.join("."))
const target = (promptCache?: "auto" | "1h" | "off", name = "claude-opus-4-8") => ({
  ...knownModel(name),
  provider: { vendor: "anthropic" },
  promptCache
})
const limits = { limit: undefined, outputTokens: 9, toolLimit: undefined }

const marksIn = (value: unknown): number => (JSON.stringify(value).match(/"cache_control"/g) ?? []).length

/** A request of any form: texts or lists, with thoughts and empty texts, of any length. */
const drawn = (dice: Dice): Any => {
  const block = (): Any =>
    dice.pick<Any>([
      text(dice.pick(["", "a", "some words"])),
      { type: "thinking", thinking: "hm", signature: "s" },
      { type: "tool_result", tool_use_id: "t", content: dice.pick<Any>(["b", [text("c")]]) },
      { type: "tool_use", id: "t", name: "weather", input: { a: 1 } }
    ])
  const list = () => Array.from({ length: dice.below(6) }, block)
  return {
    model: "m",
    max_tokens: 5,
    ...(dice.chance(0.5) ? { system: dice.pick<Any>(["", long, [text(long)], [text("a"), text("")]]) } : {}),
    ...(dice.chance(0.5) ? { tools: [weather, { ...weather, defer_loading: dice.chance(0.5) }] } : {}),
    messages: Array.from({ length: 1 + dice.below(40) }, (_, index) => ({
      role: index % 2 === 0 ? "user" : "assistant",
      content: dice.chance(0.5) ? dice.pick(["", "some text", long]) : list()
    }))
  }
}

describe("marks for Anthropic's cache", () => {
  it("are none where a caller has marks of its own, however deep", () => {
    const marked = { ...text("b"), cache_control: { type: "ephemeral" } }
    const places = [
      { type: "document", source: { type: "content", content: [marked] } },
      { type: "tool_result", tool_use_id: "t", content: [{ type: "search_result", content: [marked] }] },
      { type: "tool_result", tool_use_id: "t", content: [{ type: "document", source: { content: [marked] } }] }
    ]
    for (const place of places) {
      assert.deepStrictEqual(
        paths({ tools: [weather], messages: [...turns(2, long), { role: "user", content: [place] }] }),
        []
      )
    }
  })

  it("are on no block that has the member already, and on no blanks", () => {
    const bare = { ...text("b"), cache_control: null }
    const body = { tools: [weather], messages: [...turns(2, long), { role: "user", content: [bare, text(" \n")] }] }
    assert.notInclude(paths(body), "messages.2.content.0")
    assert.notInclude(paths(body), "messages.2.content.1")
    assert.isNotEmpty(paths(body))
  })

  it("are on the system prompt, the last block, and two before it within reach", () => {
    const body = { system: [text(long), text("more"), text("")], tools: [weather], messages: turns(60) }
    assert.deepStrictEqual(paths(body), [
      "system.1",
      "messages.59.content.0",
      "messages.41.content.0",
      "messages.23.content.0"
    ])
    assert.deepStrictEqual(paths({ ...body, system: undefined, messages: turns(3, long) }), [
      "messages.2.content.0",
      "messages.0.content.0"
    ])
    assert.deepStrictEqual(
      paths({
        tools: [
          { ...weather, description: long },
          { ...weather, defer_loading: true }
        ],
        messages: turns(1)
      }),
      ["tools.0", "messages.0.content.0"]
    )
    assert.deepStrictEqual(paths({ system: long, messages: [{ role: "user", content: "Hi" }] }, 4096, true), [
      "system",
      "messages.0.content"
    ])
  })

  it("are none before what a model caches at least, nor in a single question", () => {
    const words = "word ".repeat(1000)
    const body = { system: words, tools: [weather], messages: turns(2) }
    assert.isEmpty(paths(body, 4096))
    assert.lengthOf(paths(body, 1024), 3)
    assert.deepStrictEqual(paths({ system: "short", tools: [weather], messages: turns(5, long) }), [
      "messages.4.content.0",
      "messages.0.content.0"
    ])
    const question = { system: long, messages: turns(1) }
    assert.isEmpty(paths(question))
    assert.lengthOf(paths(question, 4096, true), 2)
    assert.lengthOf(paths({ ...question, messages: turns(2) }), 3)
  })

  it("are none where the caller has any", () => {
    const cache_control = { type: "ephemeral" }
    const body = { system: [text(long)], tools: [weather], messages: turns(4) }
    for (const marked of [
      { cache_control },
      { tools: [{ ...weather, cache_control }] },
      { system: [{ ...text(long), cache_control }] },
      { messages: [{ role: "user", content: [{ ...text("a"), cache_control }] }, ...turns(3)] },
      {
        messages: [
          {
            role: "user",
            content: [{ type: "tool_result", tool_use_id: "t", content: [{ ...text("a"), cache_control }] }]
          }
        ]
      }
    ]) {
      assert.isEmpty(paths({ ...body, ...marked }), JSON.stringify(marked))
    }
  })

  it("are at most four, near enough to each other, on blocks that take them, and the same in bytes", () => {
    const dice = diceOf("cache marks")
    let marked = 0
    for (let round = 0; round < 500; round++) {
      const body = drawn(dice)
      const asked = dice.pick(["auto", "1h"] as const)
      const changed: Any = withCacheMarks(body, target(asked), limits)
      const bytes = Buffer.from(JSON.stringify(body, undefined, dice.pick([undefined, 1])))
      const inBytes = JSON.parse(
        Buffer.from(edited(bytes, cacheMarkEdits(bytes, body, target(asked), limits))).toString()
      )
      assert.deepStrictEqual(inBytes, changed)
      const count = marksIn(changed)
      assert.isAtMost(count, 4)
      if (count === 0) {
        assert.deepStrictEqual(changed, body)
        continue
      }
      marked++
      const blocks = changed.messages.flatMap(({ content }: Any) =>
        typeof content === "string" ? [{ type: "text", text: content }] : content
      )
      const places = blocks.flatMap((block: Any, index: number) => (block.cache_control === undefined ? [] : [index]))
      for (const place of places) {
        assert.notInclude(["thinking"], blocks[place].type)
        assert.notStrictEqual(blocks[place].text, "")
        assert.deepStrictEqual(blocks[place].cache_control, {
          type: "ephemeral",
          ...(asked === "1h" ? { ttl: "1h" } : {})
        })
      }
      for (const [index, place] of places.entries()) if (index > 0) assert.isAtMost(place - places[index - 1], 18)
      // Without the marks, and with texts as blocks, it is what it was.
      const plain = (value: Any): Any =>
        JSON.parse(JSON.stringify(value, (name, inner) => (name === "cache_control" ? undefined : inner)))
      const asBlocks = (value: Any) => ({
        ...value,
        system: typeof value.system === "string" ? [text(value.system)] : value.system,
        messages: value.messages.map((message: Any) =>
          typeof message.content === "string" ? { ...message, content: [text(message.content)] } : message
        )
      })
      assert.deepStrictEqual(plain(asBlocks(plain(changed))), plain(asBlocks(body)))
    }
    assert.isAbove(marked, 100)
  })

  it("follow the minimum of the model, as the catalogue knows it", () => {
    const body = { system: "word ".repeat(1000), tools: [weather], messages: turns(2) }
    assert.isAbove(marksIn(withCacheMarks(body, target(), limits)), 0)
    assert.strictEqual(marksIn(withCacheMarks(body, target(undefined, "claude-haiku-4-5"), limits)), 0)
    assert.strictEqual(marksIn(withCacheMarks(body, target(undefined, "unheard-of"), limits)), 0)
  })
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("calls of Anthropic's models", (it) => {
  it.effect("are marked where they are translated, or where a model's configuration says so", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(anthropicVendor)
      const targets = { targets: [{ provider: "an", model: "claude-opus-4-8" }] }
      yield* configure(
        service,
        [{ id: "an", dialect: "anthropic", baseUrl: standIn.url }],
        [
          model("usual", ["an"], targets),
          model("hour", ["an"], { ...targets, promptCache: "1h" }),
          model("auto", ["an"], { ...targets, promptCache: "auto" }),
          model("off", ["an"], { ...targets, promptCache: "off" })
        ]
      )
      const { key } = yield* spender(service, [])
      const messages = [
        { role: "user", content: "Hi" },
        { role: "assistant", content: "Hello" },
        { role: "user", content: "So?" }
      ]
      const chat = (name: string, members: object = {}) =>
        Effect.map(
          ask(service, key, { model: name, messages: [{ role: "system", content: long }, ...messages], ...members }),
          ({ status, text: said }) => {
            assert.strictEqual(status, 200, said)
            return standIn.requests.at(-1)?.body
          }
        )
      const native = (name: string, members: object = {}) =>
        Effect.map(
          service.call("POST", "/v1/messages", {
            key,
            body: { model: name, max_tokens: 50, system: long, messages, ...members }
          }),
          ({ status, text: said }) => {
            assert.strictEqual(status, 200, said)
            return standIn.requests.at(-1)?.body
          }
        )
      const usual = yield* chat("usual")
      assert.strictEqual(marksIn(usual), 3)
      assert.deepStrictEqual(usual.system.at(-1).cache_control, { type: "ephemeral" })
      assert.deepStrictEqual(usual.messages.at(-1).content.at(-1).cache_control, { type: "ephemeral" })
      assert.deepStrictEqual((yield* chat("hour")).system.at(-1).cache_control, { type: "ephemeral", ttl: "1h" })
      assert.strictEqual(marksIn(yield* chat("off")), 0)
      assert.strictEqual(marksIn(yield* native("usual")), 0)
      assert.strictEqual(marksIn(yield* native("off")), 0)
      assert.strictEqual(marksIn(yield* native("auto")), 3)
      assert.strictEqual(marksIn(yield* native("hour")), 3)
      const own = { system: [{ type: "text", text: long, cache_control: { type: "ephemeral" } }] }
      assert.strictEqual(marksIn(yield* native("auto", own)), 1)
      // Under a hard cap a request is counted without marks, and sent with them.
      const capped = yield* spender(service, [{ limit: 0.06 }])
      const { status, text: said } = yield* ask(service, capped.key, {
        model: "usual",
        max_tokens: 50,
        messages: [{ role: "system", content: long }, ...messages]
      })
      assert.strictEqual(status, 200, said)
      assert.strictEqual(marksIn(standIn.requests.at(-1)?.body), 3)
      for (const { body, path } of standIn.requests)
        if (path.endsWith("count_tokens")) assert.strictEqual(marksIn(body), 0)
    }).pipe(Effect.scoped)
  )
})
