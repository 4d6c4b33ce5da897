import { isJson, type Json, textIn } from "../../../kernel/json/parsed-json.ts"
import { edited, mergePatch } from "../../json/json-edits.ts"
import { type FormatTarget, type WireFormat } from "../format.ts"
import { filesIn } from "../forms/form.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { Faults } from "../request-faults.ts"
import { namedEvents } from "../streams/written-events.ts"
import { AudioLength } from "./audio-length.ts"
import { transcriptionBound } from "./bound.ts"
import { askedFormat, renderings } from "./rendering.ts"
import { isLastOfTranscript, tellsOfTranscript, TranscriptGathering, TranscriptReader } from "./stream.ts"
import { transcriptionUnits, transcriptionUsage } from "./usage.ts"

const changes = ({ model, response_format: format }: Json, target: FormatTarget) => {
  const asked = askedFormat[textIn(format)]
  return {
    ...(model === target.model ? {} : { model: target.model }),
    ...(asked === undefined ? {} : { response_format: asked })
  }
}

const hasText = (answer: unknown): boolean => isJson(answer) && typeof answer.text === "string"

const utf8 = new TextEncoder()

/** A whole answer as the events of a stream. */
const streamed = (answer: string): string | undefined => {
  const whole: unknown = JSON.parse(answer)
  if (!isJson(whole) || typeof whole.text !== "string") return undefined
  const { text, usage } = whole
  return namedEvents([
    { type: "transcript.text.delta", delta: text },
    { type: "transcript.text.done", text, ...(usage === undefined ? {} : { usage }) }
  ])
}

const { betaHeader: _, ...chat } = openAiChat

/** OpenAI's transcriptions of audio (API reference, "Audio", "Create transcription"), whose requests are forms. */
export const openAiTranscriptions: WireFormat = {
  ...chat,
  operation: "transcribe",
  api: "transcriptions",
  pathOf: () => "/audio/transcriptions",
  route: { path: "/v1/audio/transcriptions", capability: "llm:complete" },
  modelKind: "transcription",
  chargesBound: { medium: "audio" },
  form: {
    files: new Set(["file"]),
    numbers: new Set(["temperature"]),
    switches: new Set(["stream"]),
    inspect: () => new AudioLength(),
    changes
  },
  faults: (body) =>
    new Faults(body)
      .expect("file", filesIn(body, "file").length === 1 && !Array.isArray(body.file), "a file")
      .expect("response_format", typeof (body.response_format ?? "") === "string", "a text")
      .switch("stream").found,
  metered: new Set([...openAiChat.metered, "file", "response_format"]),
  bound: transcriptionBound,
  edit: ({ body, bytes }, target) => edited(bytes, mergePatch(bytes, body, changes(body, target))),
  translation: {},
  usageIn: transcriptionUsage,
  unitsIn: transcriptionUnits,
  hasContent: hasText,
  holdsAnything: hasText,
  tells: tellsOfTranscript,
  isLast: isLastOfTranscript,
  wordsIn: ({ text }) => (typeof text === "string" ? [text] : undefined),
  rewriting: () => undefined,
  mediaType: ({ response_format: format }) =>
    renderings[textIn(format)] === undefined ? undefined : "text/plain; charset=utf-8",
  pass: (given, answer, { response_format: format, stream }) => {
    const render = stream === true ? undefined : renderings[textIn(format)]
    return render === undefined ? given : utf8.encode(render(answer))
  },
  reader: (progress) => new TranscriptReader(progress),
  gathering: () => new TranscriptGathering(),
  streamed
}

/** OpenAI's translations of audio into English (API reference, "Audio", "Create translation"). */
export const openAiTranslations: WireFormat = {
  ...openAiTranscriptions,
  operation: "translate",
  pathOf: () => "/audio/translations",
  route: { path: "/v1/audio/translations", capability: "llm:complete" }
}
