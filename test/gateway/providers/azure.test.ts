import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { AzureOpenAI } from "openai"
import { type WireFormat } from "../../../src/gateway/formats/format.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { openAiCompletions } from "../../../src/gateway/formats/openai-completions/format.ts"
import { openAiEmbeddings } from "../../../src/gateway/formats/openai-embeddings/format.ts"
import { openAiImageEdits } from "../../../src/gateway/formats/openai-images/edits.ts"
import { openAiImages } from "../../../src/gateway/formats/openai-images/format.ts"
import { openAiModerations } from "../../../src/gateway/formats/openai-moderations/format.ts"
import { openAiRealtime } from "../../../src/gateway/formats/openai-realtime/format.ts"
import { openAiResponses } from "../../../src/gateway/formats/openai-responses/format.ts"
import { openAiSpeech } from "../../../src/gateway/formats/openai-speech/format.ts"
import { openAiTranscriptions, openAiTranslations } from "../../../src/gateway/formats/openai-transcriptions/format.ts"
import { azurePlatform } from "../../../src/gateway/providers/platforms/azure.ts"

const apiVersion = "2025-04-01-preview"
const model = "my-deployment"
const deployment = model
const origin = "https://mine.openai.azure.com"

/** The address that OpenAI's client for Azure sends a request to. */
const addressOf = (use: (client: AzureOpenAI) => Promise<unknown>) =>
  Effect.promise(async () => {
    let sent: string | undefined
    const fetch: typeof globalThis.fetch = async (url) => {
      sent = url instanceof Request ? url.url : url.toString()
      return Response.json({}, { status: 400 })
    }
    await use(new AzureOpenAI({ apiKey: "k", apiVersion, deployment, endpoint: origin, fetch, maxRetries: 0 })).catch(
      () => undefined
    )
    return sent
  })

const pathOf = (format: WireFormat, version?: string) =>
  azurePlatform(version).request(format, model, false, { headers: {}, body: "{}" })?.path

const file = new File(["a"], "a.wav")
const image = new File(["a"], "a.png", { type: "image/png" })

describe("requests to Azure", () => {
  it.effect("by deployment are addressed as by OpenAI's client", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [WireFormat, (client: AzureOpenAI) => Promise<unknown>]> = [
        [openAiChat, (client) => client.chat.completions.create({ model, messages: [{ role: "user", content: "a" }] })],
        [openAiCompletions, (client) => client.completions.create({ model, prompt: "a" })],
        [openAiEmbeddings, (client) => client.embeddings.create({ model, input: "a" })],
        [openAiSpeech, (client) => client.audio.speech.create({ model, input: "a", voice: "alloy" })],
        [openAiImages, (client) => client.images.generate({ model, prompt: "a" })],
        [openAiImageEdits, (client) => client.images.edit({ model, image, prompt: "a" })],
        [openAiTranscriptions, (client) => client.audio.transcriptions.create({ model, file })],
        [openAiTranslations, (client) => client.audio.translations.create({ model, file })]
      ]
      for (const [format, use] of cases) {
        const theirs = yield* addressOf(use)
        const path = pathOf(format, apiVersion)
        assert.strictEqual(new URL(`${origin}${path}`).href, new URL(theirs ?? assert.fail(format.operation)).href)
      }
    })
  )

  it("by deployment have no other APIs, which are at /openai/v1", () => {
    for (const format of [openAiResponses, openAiModerations, openAiRealtime]) {
      assert.isUndefined(pathOf(format, apiVersion), format.operation)
      assert.strictEqual(pathOf(format), format.pathOf(model, false))
    }
  })
})
