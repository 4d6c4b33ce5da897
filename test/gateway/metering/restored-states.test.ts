import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { gatewaySnapshot, type ModelTarget } from "../../../src/gateway/configuration/gateway-snapshot.ts"
import { openedIn, sealedPrefix, type TurnSeals } from "../../../src/gateway/formats/common-form/turn-state.ts"
import { type Dialect } from "../../../src/gateway/formats/domain.ts"
import { commonFormat } from "../../../src/gateway/formats/openai-responses/common-format.ts"
import { textsOf } from "../../../src/gateway/metering/request-texts.ts"
import { providerRequest } from "../../../src/gateway/pipeline/provider-request.ts"
import { type Dice, diceOf } from "../../contract/dice.ts"
import { type Body, countOf } from "../../support/adversary.ts"
import { boundOf, chatFormats, knownModel, spokenDialects } from "../../support/formats.ts"
import { runningLoopback } from "../../support/loopback.ts"

/** Seals as long as real ones. */
const seals: TurnSeals = {
  seal: (_, state) => sealedPrefix + Buffer.from(`${"n".repeat(28)}${JSON.stringify(state)}`).toString("base64"),
  open: (_, sealed) => {
    try {
      return JSON.parse(Buffer.from(sealed.slice(sealedPrefix.length), "base64").toString().slice(28))
    } catch {
      return []
    }
  }
}

const drawText = (dice: Dice): string =>
  dice.pick(["a", "thought ", "漢字", "é", '"\\', "\u0001", "<&>"]).repeat(dice.below(300))

/** The kinds of providers: those of a dialect, and those of models that have the Responses API alone. */
type Kind = Dialect | "responses"

/** What a provider attached to a turn. */
const drawState = (dice: Dice, dialect: Kind): ReadonlyArray<object> => {
  const signature = `s${drawText(dice)}`
  const one = (): object =>
    dialect === "anthropic"
      ? dice.pick<object>([
          { type: "thinking", thinking: drawText(dice), signature },
          { type: "redacted_thinking", data: signature },
          { text: dice.below(9) },
          { call: "c1" }
        ])
      : dialect === "gemini"
        ? dice.pick<object>([
            { thought: drawText(dice), signature },
            { text: dice.below(9), signature },
            { call: "c1", signature }
          ])
        : dialect === "responses"
          ? dice.pick<object>([
              { item: { type: "reasoning", id: "rs_1", encrypted_content: signature, summary: [] } },
              { text: dice.below(9), phase: dice.pick(["commentary", "final_answer"]) },
              { call: "c1" }
            ])
          : dice.pick<object>([
              { message: { reasoning_content: drawText(dice) } },
              { message: { reasoning_details: [{ type: "reasoning.text", text: drawText(dice), index: 0 }] } },
              { call: "c1", extra_content: { x: signature } }
            ])
  return Array.from({ length: 1 + dice.below(4) }, one)
}

/** A sealed state, one that nothing opens, or a text that only begins like one. */
const drawSealed = (dice: Dice, dialect: Kind): string =>
  dice.chance(0.8)
    ? seals.seal("", drawState(dice, dialect))
    : dice.pick([sealedPrefix, `${sealedPrefix}${"A".repeat(80)}`, `${sealedPrefix} and more`])

const several = <A>(dice: Dice, draw: (index: number) => A): ReadonlyArray<A> =>
  Array.from({ length: 1 + dice.below(5) }, (_, index) => draw(index))

/** A turn with states everywhere where a caller of a format may keep them; calls may have the same id. */
const drawTurn: Record<Dialect | "common", (dice: Dice, to: Kind) => ReadonlyArray<object>> = {
  openai: (dice, to) => {
    const calls = several(dice, () => ({
      id: "c1",
      type: "function",
      function: { name: "f", arguments: "{}" },
      ...(dice.chance(0.5) ? { extra_content: { google: { thought_signature: drawSealed(dice, to) } } } : {})
    }))
    const kept = dice.chance(0.7)
      ? { reasoning_details: several(dice, () => ({ type: "reasoning.encrypted", data: drawSealed(dice, to) })) }
      : {}
    return [
      { role: "user", content: "a", ...kept },
      { role: "assistant", content: "some words", tool_calls: calls, ...kept },
      ...calls.map(() => Object.assign({ role: "tool", tool_call_id: "c1", content: "r" }, kept))
    ]
  },
  common: (dice, to) => {
    const calls = several(dice, () => ({ id: "c1", type: "function", function: { name: "f", arguments: "{}" } }))
    const turn_state = several(dice, () => drawSealed(dice, to))
    return [
      { role: "user", content: "a" },
      { role: "assistant", content: "some words", turn_state, tool_calls: calls },
      ...calls.map(() => ({ role: "tool", tool_call_id: "c1", content: "r" }))
    ]
  },
  anthropic: (dice, to) => {
    const uses = several(dice, () => ({ type: "tool_use", id: "c1", name: "f", input: {} }))
    const thoughts = several(dice, () => ({ type: "thinking", thinking: "", signature: drawSealed(dice, to) }))
    return [
      { role: "user", content: "a" },
      { role: "assistant", content: [...thoughts, { type: "text", text: "some words" }, ...uses] },
      { role: "user", content: uses.map(() => ({ type: "tool_result", tool_use_id: "c1", content: "r" })) }
    ]
  },
  gemini: (dice, to) => {
    const state = () => ({ thoughtSignature: drawSealed(dice, to) })
    const called = { id: "c1", name: "f", args: {} }
    const calls = several(dice, () => Object.assign({ functionCall: called }, dice.chance(0.5) ? state() : {}))
    const results = calls.map(() => ({ functionResponse: { id: "c1", name: "f", response: {} } }))
    return [
      { role: "user", parts: [{ text: "a" }] },
      { role: "model", parts: [{ thought: true, text: "", ...state() }, { text: "some words" }, ...calls] },
      { role: "user", parts: results }
    ]
  }
}

const formats = { ...chatFormats, common: commonFormat }
const turn = (...turn_state: ReadonlyArray<string>) => ({ role: "assistant", turn_state })
const kinds = ["openai", "anthropic", "gemini", "responses"] as const
const [loopback] = gatewaySnapshot({}, null, runningLoopback, [], []).models

const targetOf = (kind: Kind, dice: Dice): ModelTarget => {
  const own = loopback?.targets[0] ?? assert.fail("There is no loopback model")
  const vendor = dice.pick(["deepseek", undefined])
  const model = dice.pick(["claude-sonnet-4-5", "claude-opus-4-8", "gemini-3-pro"])
  const speaks = spokenDialects[kind === "responses" ? "openai" : kind]
  const apis = new Set([kind === "responses" ? ("responses" as const) : ("chat" as const)])
  return { ...own, ...knownModel(model, vendor), apis, provider: { ...own.provider, vendor, speaks } }
}

describe("a request with what its provider gets back", () => {
  it.effect("is never longer than what was reserved for it", () =>
    Effect.gen(function* () {
      const dice = diceOf("restored")
      let restored = 0
      for (let index = 0; index < 1000; index++) {
        const from = dice.pick(["openai", "anthropic", "gemini", "common"] as const)
        const to = dice.pick(kinds)
        const format = formats[from]
        const turns = several(dice, () => drawTurn[from](dice, to)).flat()
        const body: Body =
          from === "gemini"
            ? { contents: turns }
            : { model: "m", max_tokens: 5000, reasoning_effort: "low", messages: turns }
        const bytes = Buffer.from(JSON.stringify(body))
        const bound = boundOf(format, body, bytes.length)
        const request = { format, model: "m", streams: false, body, bytes, states: seals }
        const target = targetOf(to, dice)
        const made = yield* providerRequest(request, target, { limit: 10, outputTokens: 10, toolLimit: undefined })
        const sent = JSON.parse(Buffer.from(made).toString())
        const read = countOf(sent, 1, dice)
        if (/redacted_thinking|encrypted_content":"s/.test(JSON.stringify(sent))) restored++
        assert.isAtMost(read, bound.inputTokens, JSON.stringify({ from, to, body, sent }).slice(0, 4000))
      }
      assert.isAbove(restored, 20)
    })
  )

  it("opens each state once, and of too many those of the last turns", () => {
    const opened: Array<string> = []
    const open = (sealed: string) => {
      opened.push(sealed)
      return [sealed]
    }
    const same = openedIn({ messages: Array.from({ length: 5000 }, () => turn("a", "b", "a")) }, open)
    assert.deepStrictEqual(
      [opened, (same.messages as ReadonlyArray<Body>)[4999].turn_state],
      [
        ["a", "b"],
        ["a", "b"]
      ]
    )
    opened.length = 0
    const many = openedIn({ messages: Array.from({ length: 300_000 }, (_, index) => turn(`${index}`)) }, open)
    const messages = many.messages as ReadonlyArray<Body>
    assert.isAtMost(opened.length, 10_000)
    assert.deepStrictEqual(messages.at(-1), turn("299999"))
    assert.deepStrictEqual(messages[0], { role: "assistant" })
  })

  it("counts sealed states by their bytes, in every place", () => {
    const sealed = seals.seal("", [{ message: { reasoning_content: "漢字" } }])
    const words = "some words"
    for (const body of [
      { messages: [{ reasoning_details: [{ data: sealed }], content: words }] },
      { messages: [{ content: words, tool_calls: [{ extra_content: { google: { thought_signature: sealed } } }] }] },
      { messages: [{ content: [{ type: "thinking", thinking: words, signature: sealed }] }] },
      { input: [{ type: "reasoning", encrypted_content: sealed, content: words }] },
      { contents: [{ parts: [{ text: words, thoughtSignature: sealed }] }] }
    ]) {
      const { bytes, texts } = textsOf(body)
      assert.deepStrictEqual([bytes, texts], [words.length + 2, [words]], JSON.stringify(body))
    }
  })
})
