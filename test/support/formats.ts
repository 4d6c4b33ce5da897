import { builtInCatalogue } from "../../src/gateway/catalog/catalogue.ts"
import { anthropicMessages } from "../../src/gateway/formats/anthropic-messages/format.ts"
import { messagesTools } from "../../src/gateway/formats/anthropic-messages/tools.ts"
import { type Dialect } from "../../src/gateway/formats/domain.ts"
import { type BoundTerms, type WireFormat } from "../../src/gateway/formats/format.ts"
import { geminiGenerate } from "../../src/gateway/formats/gemini/format.ts"
import { openAiChat } from "../../src/gateway/formats/openai-chat/format.ts"
import { responsesTools } from "../../src/gateway/formats/openai-responses/tools.ts"
import { type FoundTools, type ToolTerms } from "../../src/gateway/formats/provider-tools.ts"
import { perImage, type TokenUpperBound } from "../../src/gateway/formats/token-upper-bound.ts"
import { type Json } from "../../src/kernel/json/parsed-json.ts"

/** The chat format of each dialect. */
export const chatFormats: Readonly<Record<Dialect, WireFormat>> = {
  openai: openAiChat,
  anthropic: anthropicMessages,
  gemini: geminiGenerate
}

export { dialects as spokenDialects } from "../../src/gateway/formats/registry/formats.ts"

/** A model with what the built-in catalogue knows of it. */
export const knownModel = (model: string, vendor?: string) => ({
  model,
  traits: builtInCatalogue.traitsOf(vendor, model)
})

const noTerms = { models: [], mcpServers: [] }

/** The bound of a request of so many bytes, where nothing else is known. */
export const boundOf = (
  format: WireFormat,
  body: Json,
  bodyBytes = Buffer.byteLength(JSON.stringify(body)),
  terms: Partial<BoundTerms> = {}
): TokenUpperBound =>
  format.bound(body, {
    ...noTerms,
    bodyBytes,
    imageTokens: perImage,
    contextTokens: null,
    maxOutputTokens: null,
    ...terms
  })

const tools = {
  chat: (body: Json, terms: ToolTerms) => messagesTools(body, terms, true),
  messages: messagesTools,
  responses: responsesTools
}

/** The tools that a provider runs, in a request of an API. */
export const providerToolsOf = (body: Json, api: keyof typeof tools, terms: ToolTerms = noTerms): FoundTools =>
  tools[api](body, terms)
