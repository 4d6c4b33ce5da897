import { isJson } from "../../../kernel/json/parsed-json.ts"
import { type WireFormat } from "../format.ts"
import { positive } from "../token-upper-bound.ts"
import { transcriptionBound } from "./bound.ts"
import { openAiTranscriptions } from "./format.ts"

/** The longest prompt of a session's transcriptions, in bytes, which each of them reads. */
export const longestPrompt = 2000

/**
 * Transcriptions of what is said in a session (OpenAI, API reference, "Realtime", `audio.input.transcription`). A request is for
 * `seconds` of audio in so many `pieces`, each of which is transcribed apart; its answer has the usage of all of them.
 */
export const liveTranscriptions: WireFormat = {
  ...openAiTranscriptions,
  faults: () => [],
  bound: ({ model, pieces, seconds }, terms) => {
    const file = { filename: "audio", contentType: "audio/pcm", bytes: 0, sha256: "", maxSeconds: seconds }
    const choices = positive(pieces) ?? 1
    const bound = transcriptionBound({ model, file }, terms)
    const prompts = bound.inputTokens === 0 ? 0 : choices * longestPrompt
    return { ...bound, choices, inputTokens: bound.inputTokens + prompts }
  },
  hasContent: isJson,
  holdsAnything: isJson
}
