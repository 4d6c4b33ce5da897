import { hash } from "node:crypto"
import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type ModelTraits } from "../traits-domain.ts"

type IdRules = Pick<ModelTraits, "callIdLength" | "longestCallId">

const plain = /^[a-zA-Z0-9]*$/

/** The id of a call as a model takes it: the same one for the call and its result, in each turn. */
export const callIdFor = (id: string, { callIdLength: length, longestCallId: longest }: IdRules): string => {
  const digest = (characters: number) =>
    hash("sha256", id, "base64")
      .replaceAll(/[^a-zA-Z0-9]/g, "")
      .slice(0, characters)
  if (length !== undefined) return id.length === length && plain.test(id) ? id : digest(length)
  return longest !== undefined && id.length > longest ? digest(longest) : id
}

/** A message of chat completions whose call ids fit the model's rules; those of other vendors are replaced. */
export const withCallIds = <Message>(message: Message, rules: IdRules): Message => {
  if ((rules.callIdLength ?? rules.longestCallId) === undefined || !isJson(message)) return message
  const { tool_call_id: answered, tool_calls: calls } = message
  const changes: Record<string, unknown> = {}
  if (typeof answered === "string" && callIdFor(answered, rules) !== answered) {
    changes.tool_call_id = callIdFor(answered, rules)
  }
  if (Array.isArray(calls) && calls.some((call) => isOther(call, rules))) {
    changes.tool_calls = calls.map((call: unknown) =>
      isOther(call, rules) ? Object.assign({}, call, { id: callIdFor(call.id, rules) }) : call
    )
  }
  return Object.keys(changes).length === 0 ? message : { ...message, ...changes }
}

const isOther = (call: unknown, rules: IdRules): call is Json & { readonly id: string } =>
  isJson(call) && typeof call.id === "string" && callIdFor(call.id, rules) !== call.id
