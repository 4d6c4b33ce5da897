import { anthropicCount, anthropicDialect, anthropicMessages } from "../anthropic-messages/format.ts"
import { type Dialect } from "../domain.ts"
import { type ClientRequest, type VendorDialect, type WireFormat } from "../format.ts"
import { geminiBatchEmbed } from "../gemini-embeddings/format.ts"
import { geminiDialect } from "../gemini/format.ts"
import { openAiChat, openAiDialect } from "../openai-chat/format.ts"
import { openAiCompletions } from "../openai-completions/format.ts"
import { openAiEmbeddings } from "../openai-embeddings/format.ts"
import { openAiImageEdits } from "../openai-images/edits.ts"
import { openAiImages } from "../openai-images/format.ts"
import { openAiModerations } from "../openai-moderations/format.ts"
import { responsesAlone } from "../openai-responses/provider/format.ts"
import { openAiSpeech } from "../openai-speech/format.ts"
import { openAiTranscriptions, openAiTranslations } from "../openai-transcriptions/format.ts"
import { rerank, rerankV2 } from "../rerank/format.ts"

/** The formats that have a path of their own; a service of its own serves the Responses API. */
export const routedFormats: ReadonlyArray<WireFormat> = [
  openAiChat,
  openAiEmbeddings,
  openAiModerations,
  openAiImages,
  openAiImageEdits,
  openAiTranscriptions,
  openAiTranslations,
  rerank,
  rerankV2,
  openAiSpeech,
  openAiCompletions,
  anthropicMessages,
  anthropicCount
]

/** The dialects that providers speak. */
export const dialects: Readonly<Record<Dialect, VendorDialect>> = {
  openai: { ...openAiDialect, otherChats: [responsesAlone], embeddings: openAiEmbeddings },
  anthropic: anthropicDialect,
  gemini: { ...geminiDialect, embeddings: geminiBatchEmbed }
}

/** What each kind of provider speaks. */
export const spoken: Readonly<Record<Dialect | "loopback", VendorDialect>> = { ...dialects, loopback: openAiDialect }

/** Whose client sends a request: of several vendors' on one path, OpenAI's send nothing that tells. */
export const dialectOf = (request: ClientRequest): VendorDialect =>
  Object.values(dialects).findLast(({ isClient }) => isClient(request)) ?? openAiDialect
