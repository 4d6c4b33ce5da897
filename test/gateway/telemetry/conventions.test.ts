import { assert, describe, it } from "@effect/vitest"
import { spokenDialects } from "../../support/formats.ts"
import { recordedSpan } from "../../support/spans.ts"
import { noUsage, operations } from "#src/gateway/formats/domain.ts"
import { describeRequest, describeSettlement, modalitiesOf } from "#src/gateway/telemetry/call-spans.ts"
import { conventionsOf, kindOf, latestOptIn, operationName, providerName } from "#src/gateway/telemetry/conventions.ts"

/** A provider at a host. */
const at = (address: string, vendor?: string, platform?: "direct" | "azure") => ({
  id: "own",
  vendor,
  platform,
  server: { address, port: 443 }
})

const target = (dialect: "openai" | "gemini") => ({ provider: { speaks: spokenDialects[dialect] } }) as never

describe("the conventions of telemetry", () => {
  it("are those of before their first release unless the list of opt-ins has theirs", () => {
    for (const none of [[], ["http", "database/dup"], ["gen_ai"], ["GEN_AI_LATEST_EXPERIMENTAL"]]) {
      assert.strictEqual(conventionsOf(none), "before")
    }
    assert.strictEqual(conventionsOf(["http", latestOptIn]), "since")
  })

  it("name a provider by its vendor, and since the release by the cloud that serves it", () => {
    const cases = [
      [at("api.openai.com", "openai"), "openai", "openai"],
      [at("api.anthropic.com", "anthropic"), "anthropic", "anthropic"],
      [at("generativelanguage.googleapis.com", "google"), "gcp.gemini", "gcp.gemini"],
      [at("api.x.ai", "x-ai"), "x_ai", "x_ai"],
      [at("llm.internal"), "own", "own"],
      [at("me.openai.azure.com"), "own", "azure.ai.openai"],
      [at("ME.cognitiveservices.azure.com", "own"), "own", "azure.ai.openai"],
      [at("me.services.ai.azure.com", "own"), "own", "azure.ai.inference"],
      [at("gateway.internal", "own", "azure"), "own", "azure.ai.openai"],
      [at("api.openai.com", "openai", "direct"), "openai", "openai"],
      [at("bedrock-runtime.eu-central-1.amazonaws.com", "own"), "own", "aws.bedrock"],
      [at("bedrock-mantle.us-east-1.api.aws", "own"), "own", "aws.bedrock"],
      [at("s3.eu-central-1.amazonaws.com", "own"), "own", "own"],
      [at("aiplatform.googleapis.com", "own"), "own", "gcp.vertex_ai"],
      [at("europe-west4-aiplatform.googleapis.com", "own"), "own", "gcp.vertex_ai"],
      [at("aiplatform.eu.rep.googleapis.com", "own"), "own", "gcp.vertex_ai"],
      [at("myaiplatform.googleapis.com.evil.example", "own"), "own", "own"]
    ] as const
    for (const [provider, before, since] of cases) {
      assert.strictEqual(providerName("before", provider), before, provider.server.address)
      assert.strictEqual(providerName("since", provider), since, provider.server.address)
    }
    assert.strictEqual(providerName("since", { id: "loopback", vendor: undefined }), "loopback")
  })

  it("name the operation of Google's API as its method since the release, and all others alike", () => {
    for (const operation of operations) {
      const name = operationName("before", operation, target("openai"))
      assert.strictEqual(operationName("before", operation, target("gemini")), name)
      assert.strictEqual(operationName("since", operation, target("openai")), name)
      const expected = name === "chat" ? "generate_content" : name
      assert.strictEqual(operationName("since", operation, target("gemini")), expected)
      const kinds = {
        embeddings: "embeddings",
        chat: "inference",
        generate_content: "inference",
        text_completion: "inference",
        realtime: "inference"
      } as Record<string, string>
      assert.strictEqual(kindOf(operation), kinds[name] ?? "operation")
    }
  })

  it("record the effort of reasoning, the earlier response and whole numbers since the release", () => {
    const body = { top_k: 40, previous_response_id: "resp_1", reasoning: { effort: "high" } }
    const before = recordedSpan((span) => describeRequest("before", span, "openai", body))
    assert.deepStrictEqual(before, { "app.dialect": "openai", "gen_ai.request.top_k": 40 })
    const since = {
      ...before,
      "gen_ai.request.reasoning.level": "high",
      "gen_ai.request.previous_response.id": "resp_1"
    }
    assert.deepStrictEqual(
      recordedSpan((span) => describeRequest("since", span, "openai", body)),
      since
    )
    for (const [asked, level] of [
      [{ reasoning_effort: "low" }, "low"],
      [{ output_config: { effort: "max" } }, "max"],
      [{ reasoning_effort: "x".repeat(1000) }, undefined],
      [{ reasoning: null }, undefined]
    ] as const) {
      const recorded = recordedSpan((span) => describeRequest("since", span, "openai", { ...asked, top_k: 1.5 }))
      assert.strictEqual(recorded["gen_ai.request.reasoning.level"], level)
      assert.notProperty(recorded, "gen_ai.request.top_k")
    }
  })

  it("record the tokens of each modality since the release, of which text has what the others leave", () => {
    const usage = {
      ...noUsage,
      inputTokens: 300,
      cachedInputTokens: 60,
      outputTokens: 50,
      media: { audioInput: 100, audioCacheRead: 20, imageInput: 30, audioOutput: 10 }
    }
    assert.deepStrictEqual(modalitiesOf(usage), [
      { modality: "text", input: 150, cacheRead: 40, output: 40 },
      { modality: "audio", input: 120, cacheRead: 20, output: 10 },
      { modality: "image", input: 30, cacheRead: 0, output: 0 }
    ])
    assert.isUndefined(modalitiesOf(noUsage))
    const settled = {
      usage,
      costNanoUsd: 1n,
      method: "provider_usage",
      reservationId: "r",
      timeToFirstTokenMs: null,
      firstChunkMs: undefined,
      facts: undefined,
      errorType: undefined
    }
    const since = recordedSpan((span) => describeSettlement("since", span, settled))
    assert.deepInclude(since, {
      "gen_ai.usage.input_tokens": 300,
      "gen_ai.usage.audio.input_tokens": 120,
      "gen_ai.usage.audio.cache_read.input_tokens": 20,
      "gen_ai.usage.text.input_tokens": 150,
      "gen_ai.usage.audio.output_tokens": 10
    })
    const before = recordedSpan((span) => describeSettlement("before", span, settled))
    assert.deepStrictEqual(
      Object.keys(before).filter((name) => /audio|text|image/.test(name)),
      []
    )
    for (const [conventions, left] of [
      ["since", ["error"]],
      ["before", undefined]
    ] as const) {
      const recorded = recordedSpan((span) => describeSettlement(conventions, span, { ...settled, method: "aborted" }))
      assert.deepStrictEqual(recorded["gen_ai.response.finish_reasons"], left)
    }
  })
})
