import { isJson, type Json, textIn } from "../../../kernel/json/parsed-json.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { reportedUsage } from "../answer-content.ts"
import { type TokenUsage } from "../domain.ts"
import { errorInEvent } from "../errors.ts"
import { type BoundTerms, type FormatTarget, type Unframing, type WireFormat } from "../format.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { usageOfResponse } from "../openai-responses/usage.ts"
import { unboundedModels } from "../provider-tools.ts"
import { Faults, usualMetered } from "../request-faults.ts"
import { askedIn } from "../served-domain.ts"
import { boundMembers, BoundWalk, perRequest, type TokenUpperBound } from "../token-upper-bound.ts"
import { plausibleUsage } from "../usage.ts"
import { audioIn, hasAudio, SpeechReader } from "./stream.ts"

/** Members of a request that are bounded. */
const speechMembers = boundMembers(
  "model input voice instructions response_format speed stream_format language sample_rate user metadata"
)

/** Whether audio is priced by its tokens, which only events report. */
const hasAudioTokens = ({ rates = null }: Pick<FormatTarget, "rates">): boolean =>
  rates !== null && (rates.basic.output > 0n || (rates.basic.audioOutput ?? 0n) > 0n)

/**
 * The maximum usage of a request: its characters, in UTF-16 code units, which are never fewer than what a vendor counts; and
 * the longest audio of the model where its tokens have a price.
 */
const bound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const walk = new BoundWalk(terms.imageTokens)
  walk.members(body, speechMembers)
  const message = "The audio that a model writes has no bound where the model's `maxOutputTokens` is not configured"
  const unlimited =
    terms.maxOutputTokens === null
      ? [{ path: ["model"], message, isBoundedAt: (target: Priced) => !hasAudioTokens(target) }]
      : []
  return {
    inputTokens: terms.bodyBytes + perRequest,
    mediaTokens: 0,
    extraOutputTokens: 0,
    choices: 1,
    askedOutputTokens: terms.models.some(hasAudioTokens) ? (terms.maxOutputTokens ?? undefined) : 0,
    asksFor: askedIn(body),
    units: { characters: textIn(body.input).length },
    unbounded: [...walk.unbounded, ...unboundedModels(terms.models), ...unlimited]
  }
}

type Priced = Pick<FormatTarget, "rates">

const asksForEvents = ({ stream_format: format }: Json): boolean => format === "sse"

/** The content types of OpenAI's answers. */
const contentTypes: ReadonlyMap<unknown, string> = new Map([
  ["opus", "audio/ogg"],
  ["aac", "audio/aac"],
  ["flac", "audio/flac"],
  ["wav", "audio/wav"],
  ["pcm", "audio/pcm"]
])

const unframed = (body: Json): Unframing | undefined =>
  asksForEvents(body)
    ? undefined
    : {
        contentType: contentTypes.get(body.response_format) ?? "audio/mpeg",
        bytesIn: audioIn,
        hasFailed: (value) => errorInEvent(value) !== undefined
      }

/** What is written is audio, whether its price is that of audio or of the output. */
const usageIn = (value: unknown): TokenUsage | undefined => {
  const reported = reportedUsage(value)
  const usage = reported === undefined ? undefined : plausibleUsage(usageOfResponse(reported))
  return usage === undefined || usage.outputTokens === 0
    ? undefined
    : { ...usage, reasoningTokens: 0, media: { audioOutput: usage.outputTokens } }
}

const isDone = (value: unknown): boolean => isJson(value) && value.type === "speech.audio.done"

/** OpenAI's speech (API reference, "Create speech"): audio, or events with parts of it and its usage. */
export const openAiSpeech: WireFormat = {
  ...openAiChat,
  operation: "speech",
  api: "speech",
  pathOf: () => "/audio/speech",
  route: { path: "/v1/audio/speech", capability: "llm:complete" },
  modelKind: "speech",
  answersBytes: true,
  faults: (body) =>
    new Faults(body)
      .expect("input", typeof body.input === "string" && body.input !== "", "a text")
      .expect("stream_format", [undefined, null, "sse", "audio"].includes(body.stream_format as string), "sse or audio")
      .found,
  metered: new Set([...usualMetered, "stream_format"]),
  bound,
  edit: ({ body, bytes }, target) => {
    const changes = {
      ...(hasAudioTokens(target) && !asksForEvents(body) ? { stream_format: "sse" } : {}),
      ...(body.model === target.model ? {} : { model: target.model })
    }
    return edited(bytes, mergePatch(bytes, body, changes))
  },
  unframed,
  translation: {},
  usageIn,
  hasContent: () => false,
  holdsAnything: () => false,
  tells: (value) => hasAudio(value) || isDone(value) || errorInEvent(value) !== undefined,
  isLast: isDone,
  wordsIn: () => [],
  pass: (given) => given,
  reader: (progress) => new SpeechReader(progress, usageIn),
  streamed: () => undefined
}
