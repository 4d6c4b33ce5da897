import { isJson, listIn } from "../../../kernel/json/parsed-json.ts"

const textIn = (content: unknown): string =>
  typeof content === "string"
    ? content
    : listIn(content)
        // The thoughts of a part are parts, too.
        .map((part) => (isJson(part) ? (typeof part.text === "string" ? part.text : textIn(part.thinking)) : ""))
        .join("")

const calledIn = (called: unknown): ReadonlyArray<string> =>
  isJson(called) ? [called.name, called.arguments, called.input].map(textIn) : []

/**
 * What a model wrote in the message of a completion, or in its part in a chunk. Each member is read on its own, so that one
 * of an unknown form hides no other.
 */
export const wordsIn = (said: unknown): ReadonlyArray<string> => {
  if (!isJson(said)) return []
  const calls = listIn(said.tool_calls)
    .filter(isJson)
    .flatMap((call) => calledIn(call.function).concat(calledIn(call.custom)))
  // Some providers write a thought under both names.
  const thought = textIn(said.reasoning_content) || textIn(said.reasoning)
  return [textIn(said.content), thought, textIn(said.refusal), ...calls, ...calledIn(said.function_call)]
}
