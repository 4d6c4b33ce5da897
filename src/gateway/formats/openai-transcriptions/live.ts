import { isJson } from "../../../kernel/json/parsed-json.ts"
import { type WireFormat } from "../format.ts"
import { positive } from "../token-upper-bound.ts"
import { transcriptionBound } from "./bound.ts"
import { openAiTranscriptions } from "./format.ts"

/**
 * Transcriptions of what is said in a session (OpenAI, API reference, "Realtime", `audio.input.transcription`). A request is for
 * `seconds` of audio in so many `pieces`, each of which is transcribed apart; its answer has the usage of all of them.
 */
export const liveTranscriptions: WireFormat = {
  ...openAiTranscriptions,
  faults: () => [],
  bound: ({ model, pieces, seconds }, terms) => ({
    ...transcriptionBound(
      { model, file: { filename: "audio", contentType: "audio/pcm", bytes: 0, sha256: "", maxSeconds: seconds } },
      terms
    ),
    choices: positive(pieces) ?? 1
  }),
  hasContent: isJson,
  holdsAnything: isJson
}
