import { isJson } from "../../../kernel/json/parsed-json.ts"
import { reportedUsage } from "../answer-content.ts"
import { noUsage, type TokenUsage, type UsageUnits } from "../domain.ts"
import { usageOfResponse } from "../openai-responses/usage.ts"
import { count, member, plausibleUsage } from "../usage.ts"

/** A year; no file is longer. */
const mostSeconds = 31_536_000

const isDuration = (seconds: unknown): seconds is number =>
  typeof seconds === "number" && seconds > 0 && seconds <= mostSeconds

/** The seconds that an answer reports as its usage, or as the length of the audio. */
const secondsIn = (value: unknown): number | undefined =>
  [member(reportedUsage(value), "seconds"), member(value, "duration")].find(isDuration)

export const transcriptionUnits = (value: unknown): UsageUnits | undefined => {
  const seconds = secondsIn(value)
  return seconds === undefined ? undefined : { audioMilliseconds: Math.ceil(seconds * 1000) }
}

/**
 * The usage of an answer: none in tokens where it has one in seconds. What is read is audio but for what is reported as text; a text
 * that cost no output is not believed.
 */
export const transcriptionUsage = (value: unknown): TokenUsage | undefined => {
  const reported = reportedUsage(value)
  if (reported?.type === "duration" || (reported === undefined && secondsIn(value) !== undefined)) {
    return secondsIn(value) === undefined ? undefined : noUsage
  }
  const usage = reported === undefined ? undefined : plausibleUsage(usageOfResponse(reported))
  if (usage === undefined || (usage.outputTokens === 0 && member(value, "text") !== "")) return undefined
  const details = [reported?.input_token_details, reported?.input_tokens_details].find(isJson)
  const texts = Math.min(usage.inputTokens, count(member(details, "text_tokens")))
  return { ...usage, media: { ...usage.media, audioInput: usage.inputTokens - texts } }
}
