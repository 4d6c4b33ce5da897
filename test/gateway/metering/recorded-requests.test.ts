import { assert, describe, it } from "@effect/vitest"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { type WireFormat } from "../../../src/gateway/formats/format.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { openAiCompletions } from "../../../src/gateway/formats/openai-completions/format.ts"
import { openAiEmbeddings } from "../../../src/gateway/formats/openai-embeddings/format.ts"
import { openAiResponses } from "../../../src/gateway/formats/openai-responses/format.ts"
import { boundOf, knownModel } from "../../support/formats.ts"
import { hasRecorded, readRecorded } from "../../support/recorded.ts"

const formats: Readonly<Record<string, WireFormat>> = {
  "anthropic-messages": anthropicMessages,
  "openai-chat": openAiChat,
  "openai-completions": openAiCompletions,
  "openai-embeddings": openAiEmbeddings,
  "openai-responses": openAiResponses
}

/** What no bound is known of: other models and prices, media by address, and tools that a provider runs. */
const unbounded =
  /^(?:models|provider|preset|service_tier|tools\.\d+|mcp_servers\.\d+|messages\.\d+\.content\.\d+|input\.\d+(?:\.content\.\d+)?|model)$/

describe.runIf(hasRecorded)("recorded requests of real clients", () => {
  it("have a bound but for what costs something of its own", () => {
    let bounded = 0
    for (const { dialect, id, request } of readRecorded()) {
      const format = formats[dialect]
      if (format === undefined || request === undefined) continue
      const models = [knownModel(String(request.model ?? ""))]
      const found = boundOf(format, request, undefined, { models, contextTokens: 100_000 }).unbounded
      if (found.length === 0) bounded++
      for (const { message, path } of found) assert.match(path.join("."), unbounded, `${id}: ${message}`)
    }
    assert.isAbove(bounded, 300)
  })
})
