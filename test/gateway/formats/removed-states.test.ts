import { assert, describe, it } from "@effect/vitest"
import { Struct } from "effect"
import { sealedPrefix } from "../../../src/gateway/formats/common-form/turn-state.ts"
import { type Dialect } from "../../../src/gateway/formats/domain.ts"
import { openAiResponses } from "../../../src/gateway/formats/openai-responses/format.ts"
import { noTraits } from "../../../src/gateway/formats/traits-domain.ts"
import { type Dice, diceOf } from "../../contract/dice.ts"
import { chatFormats } from "../../support/formats.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- requests of every shape
type Any = any

const sealed = `${sealedPrefix}${"A".repeat(60)}`
const mostlySealed = (dice: Dice): string => (dice.chance(0.6) ? sealed : "own")

/** JSON with its members in any order, blanks between all tokens, and characters escaped or not. */
const written = (dice: Dice, value: Any): string => {
  const blank = () => dice.pick(["", "", " ", "\n\t"])
  const quoted = (text: string) =>
    `"${[...text]
      .map((character) => {
        if (dice.chance(0.05)) return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
        return JSON.stringify(character).slice(1, -1)
      })
      .join("")}"`
  const whole = (one: Any): string => {
    if (typeof one === "string") return quoted(one)
    if (typeof one !== "object" || one === null) return JSON.stringify(one)
    const spaced = (parts: ReadonlyArray<string>) => parts.map((part) => blank() + part + blank()).join(",")
    if (Array.isArray(one)) return `[${spaced(one.map(whole)) || blank()}]`
    const members = Object.entries(one).toSorted(() => dice.below(3) - 1)
    return `{${spaced(members.map(([name, member]) => `${quoted(name)}${blank()}:${blank()}${whole(member)}`)) || blank()}}`
  }
  return blank() + whole(value) + blank()
}

const several = <A>(dice: Dice, draw: () => A): Array<A> => Array.from({ length: dice.below(4) }, draw)
const some = (dice: Dice, members: object): object =>
  Object.fromEntries(Object.entries(members).filter(() => dice.chance(0.7)))

type Draw = (dice: Dice) => { readonly body: Any; readonly expected: Any }

/** Requests, and what a provider of their own format gets of them. */
const draws: Record<Dialect | "responses", Draw> = {
  openai: (dice) => {
    const messages = several(dice, () => ({
      role: "assistant",
      ...some(dice, {
        content: dice.pick(["words", "", null]),
        reasoning_content: "thoughts",
        reasoning_details: several(dice, () => ({ type: "reasoning.encrypted", data: mostlySealed(dice), index: 0 })),
        tool_calls: several(dice, () => ({
          id: "c",
          extra_content: { google: { thought_signature: mostlySealed(dice) } }
        })),
        name: "n"
      })
    }))
    const expected = messages.flatMap((message: Any) => {
      const { reasoning_details: details, tool_calls: calls } = message
      const rest = Struct.omit(message, ["reasoning_content", "reasoning_details", "tool_calls"])
      if (!JSON.stringify(message).includes(sealed)) return [message]
      if (!message.content && (calls ?? []).length === 0) return []
      const own = details?.filter(({ data }: Any) => data !== sealed)
      return [
        {
          ...rest,
          ...(details === undefined || (own.length === 0 && details.length > 0) ? {} : { reasoning_details: own }),
          ...(calls === undefined
            ? {}
            : {
                tool_calls: calls.map((call: Any) =>
                  call.extra_content.google.thought_signature === sealed ? { id: "c" } : call
                )
              })
        }
      ]
    })
    return { body: { messages }, expected: { messages: expected } }
  },
  anthropic: (dice) => {
    const messages = several(dice, () => ({
      role: "assistant",
      content: several(dice, () =>
        dice.chance(0.5)
          ? { type: "thinking", thinking: "", signature: mostlySealed(dice) }
          : { type: "text", text: "words" }
      )
    }))
    const expected = messages.flatMap(({ content, role }: Any) => {
      const rest = content.filter(({ signature }: Any) => signature !== sealed)
      return rest.length === 0 && content.length > 0 ? [] : [{ role, content: rest }]
    })
    return { body: { messages, max_tokens: 10 }, expected: { messages: expected, max_tokens: 10 } }
  },
  gemini: (dice) => {
    const signed = () => ({ [dice.pick(["thoughtSignature", "thought_signature"])]: mostlySealed(dice) })
    const contents = several(dice, () => ({
      role: dice.pick(["model", "user"]),
      parts: several(dice, () => ({
        ...dice.pick<object>([
          { text: "words" },
          { text: "", thought: true },
          { text: "thoughts", thought: true },
          { functionCall: { name: "f" } }
        ]),
        ...(dice.chance(0.6) ? signed() : {})
      }))
    }))
    const expected = contents.flatMap(({ parts, role }: Any, index) => {
      let first = index
      while (contents[first - 1]?.role === role) first--
      let end = index
      while (contents[end + 1]?.role === role) end++
      if (!JSON.stringify(contents.slice(first, end + 1)).includes(sealed)) return [{ parts, role }]
      const rest = parts.flatMap((part: Any) => {
        const { thoughtSignature, thought_signature, ...others } = part
        const state = thoughtSignature ?? thought_signature
        if (state === "own") return [part]
        const name = thoughtSignature === undefined ? "thought_signature" : "thoughtSignature"
        if (part.functionCall) return [state ? { ...others, [name]: "skip_thought_signature_validator" } : part]
        return part.thought ? [] : [others]
      })
      return rest.length === 0 && parts.length > 0 ? [] : [{ role, parts: rest }]
    })
    // Google takes one element for a list of it.
    const isSingle = dice.chance(0.3)
    const single = (content: Any) =>
      isSingle && content.parts.length === 1 ? { ...content, parts: content.parts[0] } : content
    return { body: { contents: contents.map(single) }, expected: { contents: expected } }
  },
  responses: (dice) => {
    const input = several(dice, () =>
      dice.pick<Any>([
        { type: "reasoning", summary: [], encrypted_content: mostlySealed(dice) },
        { role: "user", content: sealed },
        { type: "function_call", call_id: "c", name: "f", arguments: sealed }
      ])
    )
    const expected = input.filter(({ encrypted_content: state }: Any) => state !== sealed)
    return { body: { input }, expected: { input: expected } }
  }
}

const limitMembers = ["max_tokens", "max_completion_tokens", "max_output_tokens", "generationConfig"]

const given = (body: Any, text: string) => ({ model: body.model, streams: false, body, bytes: Buffer.from(text) })

const formats = { ...chatFormats, responses: openAiResponses }

describe("a request without the states of other providers", () => {
  for (const [name, draw] of Object.entries(draws)) {
    it(`is valid, and keeps all else, written in any way: ${name}`, () => {
      const dice = diceOf(name)
      for (let index = 0; index < 1000; index++) {
        const drawn = draw(dice)
        const body = { model: "caller's", ...drawn.body }
        const text = written(dice, body)
        const target = { model: dice.pick(["m", "caller's"]), provider: { vendor: undefined }, traits: noTraits } as Any
        const limits = { limit: dice.pick([undefined, 5]), outputTokens: 5, toolLimit: undefined }
        const format = formats[name as keyof typeof formats]
        const sent = Buffer.from(format.edit(given(JSON.parse(text), text), target, limits))
        const rest: Any = Struct.omit(JSON.parse(sent.toString()), limitMembers)
        for (const content of rest.contents ?? []) content.parts = [content.parts].flat()
        const expected = Struct.omit(drawn.expected, ["max_tokens"])
        const model = name === "gemini" ? `models/${target.model}` : target.model
        assert.deepStrictEqual(rest, { model, ...expected }, text)
      }
    })
  }

  it("leaves the bytes as they are where nothing is sealed", () => {
    const dice = diceOf("bytes")
    for (const [name, draw] of Object.entries(draws)) {
      for (let index = 0; index < 200; index++) {
        const body = JSON.parse(JSON.stringify({ model: "m", ...draw(dice).body }).replaceAll(sealed, "gatewa"))
        const text = written(dice, body)
        const target = { model: "m", provider: { vendor: undefined }, traits: noTraits } as Any
        const limits = { limit: undefined, outputTokens: 5, toolLimit: undefined }
        const format = formats[name as keyof typeof formats]
        const sent = Buffer.from(format.edit(given(body, text), target, limits)).toString()
        if (name === "gemini") assert.deepStrictEqual(JSON.parse(sent), { ...body, model: "models/m" })
        else assert.strictEqual(sent, text)
      }
    }
  })
})
