import { type Json } from "../../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../../kernel/lookup-table.ts"
import { callOf, completionOf, messageOf } from "../common-form/answers.ts"
import { type ChatCompletion, thoughtOf } from "../common-form/domain.ts"
import { usageOfCompletion } from "../common-form/usage.ts"
import { noUsage, type FinishReason } from "../domain.ts"
import { type AnswerHead } from "../format.ts"
import { partsOf, type Answer, type AnsweredPart, type GeminiCandidate } from "./domain.ts"
import { callPart, TurnParts, type WrittenPart } from "./turn-parts.ts"
import { withSealedStates } from "./turn-state.ts"
import { reportsUsage, toAnswerUsage, usageOfAnswer } from "./usage.ts"

const finishReasons = lookupTable<FinishReason>({
  STOP: "stop",
  MAX_TOKENS: "length",
  SAFETY: "content_filter",
  RECITATION: "content_filter",
  LANGUAGE: "content_filter",
  BLOCKLIST: "content_filter",
  PROHIBITED_CONTENT: "content_filter",
  SPII: "content_filter",
  IMAGE_SAFETY: "content_filter",
  IMAGE_PROHIBITED_CONTENT: "content_filter",
  IMAGE_RECITATION: "content_filter"
})

const unspecified = "FINISH_REASON_UNSPECIFIED"

/**
 * Whether a model stopped without having completed its answer: its call was malformed, or the reason is not known. Where
 * nothing was said, another target can answer.
 */
export const isIncomplete = (reason: string | undefined): boolean =>
  reason !== undefined && reason !== "" && finishReasons[reason] === undefined

/** Maps Gemini's `finishReason` to OpenAI's; an incomplete answer is one that was cut. */
export const toFinishReason = (reason: string | undefined, callsTools: boolean): FinishReason => {
  const found = isIncomplete(reason) ? "length" : (finishReasons[reason ?? ""] ?? "stop")
  return callsTools && found === "stop" ? "tool_calls" : found
}

/** Whether a candidate has ended. */
export const hasEnded = (reason: string | undefined): reason is string =>
  reason !== undefined && reason !== "" && reason !== unspecified

const geminiReasons = lookupTable<string>({
  stop: "STOP",
  tool_calls: "STOP",
  function_call: "STOP",
  length: "MAX_TOKENS",
  content_filter: "SAFETY"
})

/** Maps OpenAI's `finish_reason` to Gemini's. */
export const toGeminiReason = (reason: string | null | undefined): string => geminiReasons[reason ?? ""] ?? "STOP"

/** The id of a call that the provider gave none. */
export const callIdOf = (head: { readonly id: string }, candidate: number, call: number): string =>
  candidate === 0 ? `${head.id}_${call}` : `${head.id}_${candidate}_${call}`

/** The searches that Google ran for a candidate. */
export const searchesOf = ({ groundingMetadata }: GeminiCandidate): ReadonlyArray<{ readonly query: string }> =>
  (groundingMetadata?.webSearchQueries ?? []).map((query) => ({ query }))

/** What an answer says in its text, its thoughts and its calls. */
export const wordsInAnswer = (answer: Answer): ReadonlyArray<string> =>
  (answer.candidates ?? [])
    .flatMap(partsOf)
    .flatMap(({ functionCall: call, text = "" }) =>
      call === undefined ? [text] : [call.name ?? "", JSON.stringify(call.args ?? {})]
    )

const says = (part: AnsweredPart): boolean =>
  Object.entries(part).some(([name, value]) => name !== "thought" && name !== "thoughtSignature" && value !== "")

/** Whether an answer, or an element of a streamed one, has content in any form. */
export const answerSays = (answer: Answer): boolean => (answer.candidates ?? []).flatMap(partsOf).some(says)

/** Whether it tells anything: content, a usage with the reason why there is none, a block, or an error. */
export const answerTells = (answer: Answer): boolean =>
  answerSays(answer) ||
  Boolean(answer.error) ||
  Boolean(answer.promptFeedback?.blockReason) ||
  (reportsUsage(answer.usageMetadata) && (answer.candidates ?? []).some(({ finishReason }) => hasEnded(finishReason)))

/** The candidates of an answer; a blocked prompt has one that says nothing. */
export const candidatesOf = ({ candidates, promptFeedback }: Answer): ReadonlyArray<GeminiCandidate> =>
  (candidates ?? []).length === 0 && promptFeedback?.blockReason ? [{ finishReason: "SAFETY" }] : (candidates ?? [])

/** Translates an answer to a chat completion. */
export const answerToCompletion = (answer: Answer, head: AnswerHead): Json => {
  const choices = candidatesOf(answer).map((candidate, place) => {
    const index = candidate.index ?? place
    const message = messageIn(candidate, index, head)
    return { index, message, finish_reason: toFinishReason(candidate.finishReason, message.tool_calls !== undefined) }
  })
  const usage = answer.usageMetadata === undefined ? noUsage : usageOfAnswer(answer.usageMetadata)
  return completionOf(head, answer.responseId ?? head.id, choices, usage)
}

const messageIn = (candidate: GeminiCandidate, index: number, head: AnswerHead): Json => {
  const turn = new TurnParts()
  const texts: Array<string> = []
  const thoughts: Array<string> = []
  const calls: Array<Json> = []
  const state = partsOf(candidate).flatMap((part) => {
    const { functionCall: called, text, thought } = part
    if (called === undefined) {
      if (text !== undefined) (thought === true ? thoughts : texts).push(text)
      return isSpoken(part) ? turn.add(part) : []
    }
    const id = called.id || callIdOf(head, index, calls.length)
    calls.push(callOf(id, called.name ?? "", called.args))
    return turn.add(part, id)
  })
  return messageOf({ texts, thoughts, calls, state, searches: searchesOf(candidate) })
}

/** Whether a part has a text or a signature; other parts are not translated. */
export const isSpoken = ({ text, thoughtSignature }: AnsweredPart): boolean =>
  text !== undefined || thoughtSignature !== undefined

/** A candidate without a part is none to Google's SDK. */
export const withAnyPart = (parts: ReadonlyArray<WrittenPart>): ReadonlyArray<WrittenPart> =>
  parts.length === 0 ? [{ text: "" }] : parts

/** Translates a chat completion to an answer. */
export const completionToAnswer = (completion: ChatCompletion, head: AnswerHead): Json => ({
  candidates: (completion.choices ?? []).map((choice, place) => {
    const index = choice.index ?? place
    const isRefusal = Boolean(choice.message?.refusal)
    return {
      content: { parts: withAnyPart(partsOfChoice(choice, index, head)), role: "model" },
      finishReason: isRefusal ? "SAFETY" : toGeminiReason(choice.finish_reason),
      index
    }
  }),
  usageMetadata: toAnswerUsage(completion.usage === undefined ? noUsage : usageOfCompletion(completion.usage)),
  modelVersion: head.model,
  responseId: completion.id ?? head.id
})

const partsOfChoice = (
  { message: said }: NonNullable<ChatCompletion["choices"]>[number],
  index: number,
  head: AnswerHead
): ReadonlyArray<WrittenPart> => {
  const thought = head.includesThoughts === true ? thoughtOf(said) : ""
  const text = (said?.content ?? "") + (said?.refusal ?? "")
  const calls = (said?.tool_calls ?? []).flatMap(({ function: called, id }, place) =>
    called?.name === undefined
      ? []
      : [callPart(id || callIdOf(head, index, place), called.name, called.arguments ?? "")]
  )
  return withSealedStates(
    [...(thought === "" ? [] : [{ thought: true, text: thought }]), ...(text === "" ? [] : [{ text }]), ...calls],
    said?.turn_state ? [said.turn_state] : []
  )
}
