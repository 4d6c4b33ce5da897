import { type Json, textIn } from "../../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../../kernel/lookup-table.ts"
import { completionOf, messageOf } from "../../common-form/answers.ts"
import { type Citation } from "../../common-form/citations.ts"
import { type FinishReason, noUsage } from "../../domain.ts"
import { type AnswerHead } from "../../format.ts"
import { member } from "../../usage.ts"
import { usageOfResponse } from "../usage.ts"
import { objectsIn, TurnItems } from "./turn-items.ts"

const incompleteReasons = lookupTable<FinishReason>({
  max_output_tokens: "length",
  content_filter: "content_filter"
})

/** The states of a response that is not, or not yet, as the model would have it. */
const cutStatuses: ReadonlySet<unknown> = new Set(["incomplete", "in_progress", "queued", "cancelled", "failed"])

/** Why the model stopped. An answer that is not complete for another reason is one that was cut. */
export const finishReasonOf = (response: Json, callsTools: boolean): FinishReason => {
  if (!cutStatuses.has(response.status)) return callsTools ? "tool_calls" : "stop"
  return incompleteReasons[textIn(member(response.incomplete_details, "reason"))] ?? "length"
}

/** The text of an item's parts of one type. */
const textOf = (item: Json, name: "text" | "refusal"): string =>
  objectsIn(item.content)
    .map((part) => textIn(part[name]))
    .join("")

/** What separates the parts of a summary, each of which is a paragraph. */
export const betweenSummaries = "\n\n"

/** The thoughts of an item: their summary, or else the thoughts themselves, which open models show. */
const thoughtsOf = ({ content, summary }: Json): string => {
  const parts = objectsIn(summary).length > 0 ? objectsIn(summary) : objectsIn(content)
  return parts.map(({ text }) => textIn(text)).join(betweenSummaries)
}

/** What an item says, as a chat completion has it. */
export const wordsOf = (item: Json) => ({
  content: item.type === "message" ? textOf(item, "text") : "",
  refusal: item.type === "message" ? textOf(item, "refusal") : "",
  reasoning_content: item.type === "reasoning" ? thoughtsOf(item) : ""
})

/** The page that a part of a text is based on, with the place of the part in the whole text; citations of files have no form. */
export const citationOf = (annotation: Json, before: number): ReadonlyArray<Citation> => {
  const { end_index: end, start_index: start, title, type, url } = annotation
  if (type !== "url_citation" || typeof url !== "string") return []
  const [from, to] = [start, end].map((index) => (typeof index === "number" ? before + index : 0))
  return [{ url, title: textIn(title), start: from ?? 0, end: Math.max(from ?? 0, to ?? 0), cited: "" }]
}

/** The citations of an item whose text begins at this place. */
const citationsOf = (item: Json, before: number): ReadonlyArray<Citation> => {
  let at = before
  return objectsIn(item.content).flatMap(({ annotations, text }) => {
    const found = objectsIn(annotations).flatMap((annotation) => citationOf(annotation, at))
    at += textIn(text).length
    return found
  })
}

/** A call of a function. */
export const callOfItem = (item: Json, given: string): Json => ({
  id: textIn(item.call_id),
  type: "function",
  function: { name: textIn(item.name), arguments: given }
})

/** The log probabilities of tokens, which have one form in both APIs. */
export const logprobsOf = (tokens: ReadonlyArray<Json>): Json | null =>
  tokens.length === 0 ? null : { content: tokens, refusal: null }

/** Translates a response to a chat completion. */
export const responseToCompletion = (response: Json, head: AnswerHead): Json => {
  const items = objectsIn(response.output)
  const turn = new TurnItems()
  const words = items.map(wordsOf)
  const texts = (name: "content" | "refusal" | "reasoning_content") =>
    words.map((said) => said[name]).filter((text) => text !== "")
  const calls = items.flatMap((item) =>
    item.type === "function_call" ? [callOfItem(item, textIn(item.arguments))] : []
  )
  const refusals = texts("refusal")
  let written = 0
  const citations = items.flatMap((item, index) => {
    const before = written
    written += words[index]?.content.length ?? 0
    return citationsOf(item, before)
  })
  const said = messageOf({
    texts: texts("content"),
    thoughts: texts("reasoning_content"),
    calls,
    state: items.flatMap((item, index) => turn.add(item, words[index]?.content.length ?? 0)),
    searches: [],
    citations
  })
  const message = refusals.length === 0 ? said : { ...said, refusal: refusals.join("") }
  const tokens = items.flatMap(({ content }) => objectsIn(content).flatMap(({ logprobs }) => objectsIn(logprobs)))
  const finish_reason = finishReasonOf(response, calls.length > 0)
  const choice = { index: 0, message, finish_reason, logprobs: logprobsOf(tokens) }
  const usage = response.usage === undefined || response.usage === null ? noUsage : usageOfResponse(response.usage)
  return completionOf(head, textIn(response.id) || head.id, [choice], usage)
}
