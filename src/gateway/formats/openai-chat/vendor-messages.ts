import { isJson, type Json, listIn, textIn } from "../../../kernel/json/parsed-json.ts"
import { type Renaming } from "../../json/kept-ids.ts"
import { withCallIds } from "../common-form/call-ids.ts"
import { textAndThoughtIn } from "../common-form/domain.ts"
import { isSealedState, unsignedCall } from "../common-form/turn-state.ts"
import { isEmpty } from "../token-upper-bound.ts"
import { type ModelTraits } from "../traits-domain.ts"
import { signatureOf, signed, withThinking } from "./turn-state.ts"

/** Calls of which the first has a signature: its own, or what Google takes for one that is lost. */
const signedCalls = (calls: ReadonlyArray<unknown>): ReadonlyArray<unknown> =>
  calls.map((call, index) => {
    if (!isJson(call)) return call
    const signature = textIn(signatureOf(call))
    if (signature !== "" && !isSealedState(signature)) return call
    const { extra_content: _, ...bare } = call
    return index === 0 ? signed(bare, unsignedCall) : bare
  })

/** A message of the history with ids of calls that its model takes, and its thoughts where the model has them. */
export const asModelTakes = (given: unknown, traits: ModelTraits): unknown => {
  const { requiresThoughts, thoughtsIn } = traits
  const message = withCallIds(given, traits)
  if (!isJson(message) || message.role !== "assistant" || thoughtsIn === undefined) return message
  const { reasoning_content: thought, ...rest } = message
  const hasThought = thought !== undefined
  switch (thoughtsIn) {
    case "reasoning":
      return hasThought ? { reasoning: thought, ...rest } : message
    case "content":
      return hasThought
        ? { ...rest, content: isEmpty(thought) ? rest.content : withThinking(textIn(thought), rest.content) }
        : message
    case "signatures": {
      const calls = listIn(rest.tool_calls)
      if (calls.length === 0 || requiresThoughts !== true) return hasThought ? rest : message
      return { ...rest, tool_calls: signedCalls(calls) }
    }
  }
}

const isInParts = (choice: unknown): boolean =>
  isJson(choice) && [choice.message, choice.delta].some((said) => isJson(said) && Array.isArray(said.content))

/** An answer whose content is text, with its thoughts as other vendors write them, for clients that read nothing else. */
export const withTextContent: Renaming = (json, value) => {
  if (!isJson(value)) return json
  const choices = listIn(value.choices)
  if (!choices.some(isInParts)) return json
  return JSON.stringify({ ...value, choices: choices.map((choice) => (isJson(choice) ? inText(choice) : choice)) })
}

/** What is said in parts, as a text and thoughts. */
export const withTextIn = (said: Json): Json => {
  if (!Array.isArray(said.content)) return said
  const { text, thought } = textAndThoughtIn(said.content)
  return { ...said, content: text === "" ? null : text, ...(thought === "" ? {} : { reasoning_content: thought }) }
}

const inText = (choice: Json): Json => {
  const member = isJson(choice.delta) ? "delta" : "message"
  const said = choice[member]
  return isJson(said) ? { ...choice, [member]: withTextIn(said) } : choice
}
