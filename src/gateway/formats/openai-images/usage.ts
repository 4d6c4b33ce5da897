import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { reportedUsage } from "../answer-content.ts"
import { type TokenUsage, type UsageUnits } from "../domain.ts"
import { usageOfResponse } from "../openai-responses/usage.ts"
import { count, member, plausibleUsage } from "../usage.ts"
import { chosen } from "./bound.ts"

/**
 * The usage of an answer or of an event with an image: all of its output is of images but what is reported as text. One without
 * output counts as none, since every image has some. `readsImages`: whether the request has images.
 */
export const usageOfImages = (value: unknown, readsImages = false): TokenUsage | undefined => {
  const reported = reportedUsage(value)
  if (reported === undefined) return undefined
  const usage = plausibleUsage(usageOfResponse(reported))
  if (usage === undefined || usage.outputTokens === 0) return undefined
  const texts = isJson(reported.output_tokens_details)
    ? count(member(reported.output_tokens_details, "text_tokens"))
    : 0
  const imageOutput = texts < usage.outputTokens ? usage.outputTokens - texts : usage.outputTokens
  // Without its details, what is read costs as much as it may.
  const isUndetailed = readsImages && !isJson(reported.input_tokens_details)
  const imageInput = isUndetailed ? { imageInput: usage.inputTokens - usage.cachedInputTokens } : {}
  return { ...usage, media: { ...usage.media, ...imageInput, imageOutput } }
}

const classes = ["inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteTokens", "reasoningTokens"] as const

/** The usage of two images of a stream, of which each reports its own. */
export const withImage = (before: TokenUsage | undefined, image: TokenUsage): TokenUsage => {
  if (before === undefined) return image
  const media: Record<string, number> = { ...before.media }
  for (const [name, tokens] of Object.entries(image.media ?? {})) media[name] = (media[name] ?? 0) + tokens
  const sums = Object.fromEntries(classes.map((name) => [name, before[name] + image[name]]))
  return { ...before, ...image, ...sums, media }
}

/** The images of an answer, where it or its request says of which size and quality they are. */
export const unitsOfImages = (answer: unknown, request: Json): UsageUnits | undefined => {
  const count = listIn(member(answer, "data")).length
  const [size, quality] = ["size", "quality"].map((name) => chosen(member(answer, name)) ?? chosen(request[name]))
  return count === 0 || size === undefined || quality === undefined ? undefined : { images: [{ count, size, quality }] }
}
