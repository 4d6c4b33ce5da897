import { isJson, type Json, listIn } from "../../kernel/json/parsed-json.ts"
import { type TokenUsage } from "./domain.ts"
import { member } from "./usage.ts"

type UsageReader = (value: unknown) => TokenUsage | undefined

/** What an answer or an event of its stream reports as its usage, wherever it stands. */
export const reportedUsage = (value: unknown): Json | undefined => {
  if (!isJson(value)) return undefined
  const { message, response, usage } = value
  return [usage, member(message, "usage"), member(response, "usage")].find(isJson)
}

/** Members that say what something is, and nothing more. */
const labels = new Set(["id", "index", "object", "phase", "role", "status", "type"])

/** Whether a value has a text, at any depth; without recursion, since it may be nested to any depth. */
export const saysAnything = (value: unknown): boolean => {
  const rest = [value]
  while (rest.length > 0) {
    const one = rest.pop()
    if (typeof one === "string" && one !== "") return true
    if (Array.isArray(one)) for (const inner of one) rest.push(inner)
    else if (isJson(one)) for (const name in one) if (!labels.has(name)) rest.push(one[name])
  }
  return false
}

const choiceSays = (choice: unknown): boolean =>
  isJson(choice) && (saysAnything(choice.message) || saysAnything(choice.delta) || saysAnything(choice.text))

const isFinished = ({ choices, status, stop_reason: reason }: Json): boolean =>
  [reason, status, ...listIn(choices).map((choice) => member(choice, "finish_reason"))].some(
    (one) => typeof one === "string" && one !== ""
  )

/** Whether an answer has content: a text, a call, or an image. */
export const hasContent = (value: unknown): boolean =>
  isJson(value) &&
  (listIn(value.choices).some(choiceSays) || [value.content, value.output].some((list) => saysAnything(list)))

/**
 * Whether a complete answer holds anything: content in any form, or a usage with the reason why the model said nothing, as
 * where it thought up to its limit.
 */
export const holdsAnything = (value: unknown, usageIn: UsageReader): boolean => {
  if (!isJson(value)) return saysAnything(value)
  return hasContent(value) || (isFinished(value) && usageIn(value) !== undefined)
}

/** Whether an event of a stream is passed on at once: it says something, reports a usage or an error, or is no object. */
export const tellsAnything = (value: unknown, usageIn: UsageReader): boolean => {
  if (!isJson(value)) return true
  const { choices, content_block: block, delta, error, item, part, response, type } = value
  return (
    Boolean(error) ||
    type === "error" ||
    Boolean(member(response, "error")) ||
    listIn(choices).some(choiceSays) ||
    isJson(item) ||
    saysAnything([block, part, member(response, "output")]) ||
    (type !== "message_delta" && saysAnything(delta)) ||
    usageIn(value) !== undefined
  )
}
