import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { HttpApi } from "effect/http-api"
import * as fs from "node:fs"
import * as path from "node:path"
import { Api } from "../../../src/api.ts"
import { gatewayRoutes } from "../../../src/gateway/wire/vendor/routes.ts"
import { configure, model, provider } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { makeResponsesVendor } from "../../support/responses-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { countOf } from "../../support/statements.ts"
import { anthropicVendor } from "../../support/vendors.ts"

/** The routes in the gateway's own words that ask a provider for something. */
const ownRoutes = (): ReadonlyArray<string> => {
  const paths: Array<string> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, group }) => {
      if (group.identifier === "llmCalls") paths.push(endpoint.path)
    }
  })
  return paths
}

const file = new File(["fLaC"], "a.flac")

const formOf = (fields: Readonly<Record<string, string | Blob>>): FormData => {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields)) form.append(name, value)
  return form
}

const source = path.resolve(import.meta.dirname, "../../../src")
const filesWith = (pattern: RegExp): ReadonlyArray<string> =>
  fs
    .readdirSync(source, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".ts") && pattern.test(fs.readFileSync(path.join(source, file), "utf8")))

describe("nothing but metered calls", () => {
  it("sends a request to a provider", () => {
    assert.deepStrictEqual(filesWith(/\.provider\)?\.send\(/), ["gateway/routing/router.ts"])
    // A session costs nothing but its responses and transcriptions, which are calls.
    assert.deepStrictEqual(filesWith(/\.provider\.open\(/), ["gateway/wire/openai-realtime/routes.ts"])
    // Counting tokens costs nothing.
    assert.deepStrictEqual(filesWith(/\brouter\s*\.send\(/), [
      "gateway/pipeline/call-pipeline.ts",
      "gateway/pipeline/message-counts.ts"
    ])
    // What a provider stores is read and deleted free of charge.
    assert.deepStrictEqual(filesWith(/\.stored\(\{/), ["gateway/wire/openai-responses/native.ts"])
    // What batches may cost is held before they are submitted.
    assert.deepStrictEqual(filesWith(/\.kept(?:\?\.)?\(/).toSorted(), [
      "gateway/batches/file-uploads.ts",
      "gateway/batches/kept-things.ts",
      "gateway/batches/service.ts"
    ])
  })
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("every route to a provider", (it) => {
  it.effect("keeps money free for what it asks, and charges it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const openai = yield* startProvider(makeResponsesVendor())
      const anthropic = yield* startProvider(anthropicVendor)
      yield* configure(
        service,
        [
          provider("oa", openai, {
            apis: [
              "chat",
              "responses",
              "completions",
              "embeddings",
              "moderations",
              "rerank",
              "speech",
              "images",
              "transcriptions"
            ]
          }),
          { id: "an", dialect: "anthropic", baseUrl: anthropic.url }
        ],
        [
          model("gpt", ["oa"], { maxOutputTokens: 99 }),
          model("claude", ["an"]),
          model("vectors", ["oa"], { kind: "embedding" }),
          model("judge", ["oa"], { kind: "moderation" }),
          model("gpt-image-1", ["oa"], { kind: "image" }),
          model("whisper-1", ["oa"], { kind: "transcription" }),
          model("ranker", ["oa"], { kind: "rerank" }),
          model("voice", ["oa"], { kind: "speech", maxOutputTokens: 99 })
        ]
      )
      const messages = [{ role: "user", content: "Hi" }]
      const asked = () => openai.requests.length + anthropic.requests.length
      const charged = Effect.andThen(
        service.call("GET", "/api/budgets/caps?limit=1"),
        countOf(service.database, "usage_rows")
      )
      const walked = new Set<string>()
      const walk = Effect.fnUntraced(function* (route: string, body: object, costs: boolean) {
        const before = { asked: asked(), charged: yield* charged }
        const answer = yield* body instanceof FormData
          ? Effect.promise(async () => {
              const headers = { "x-api-key": service.serviceKey }
              const response = await fetch(`${service.url}${route}`, { method: "POST", headers, body })
              return { status: response.status, text: await response.text() }
            })
          : service.call("POST", route, { body })
        assert.strictEqual(answer.status, 200, `${route} ${answer.text}`)
        assert.strictEqual(asked(), before.asked + 1, route)
        assert.strictEqual(yield* charged, before.charged + (costs ? 1 : 0), route)
        walked.add(route)
      })
      for (const { operation, path: route } of gatewayRoutes) {
        if (operation === "embed") yield* walk(route, { model: "vectors", input: "a" }, true)
        else if (operation === "moderate") yield* walk(route, { model: "judge", input: "a" }, true)
        else if (operation === "generate-image") {
          yield* walk(route, { model: "gpt-image-1", prompt: "a" }, true)
        } else if (operation === "edit-image") {
          yield* walk(route, formOf({ model: "gpt-image-1", prompt: "a", image: file }), true)
        } else if (operation === "transcribe" || operation === "translate") {
          yield* walk(route, formOf({ model: "whisper-1", file }), true)
        } else if (operation === "rerank") yield* walk(route, { model: "ranker", query: "a", documents: ["a"] }, true)
        else if (operation === "speech") yield* walk(route, { model: "voice", input: "a", voice: "alloy" }, true)
        else if (operation === "completions") yield* walk(route, { model: "gpt", prompt: "a" }, true)
        else {
          for (const name of operation === "chat" ? ["gpt", "claude"] : ["claude"]) {
            yield* walk(route, { model: name, max_tokens: 9, messages }, operation === "chat")
          }
        }
      }
      for (const name of ["gpt", "claude"]) yield* walk("/v1/responses", { model: name, input: "a" }, true)
      yield* walk("/v1/responses/compact", { model: "gpt", input: "a" }, true)
      yield* walk("/v1/responses/input_tokens", { model: "gpt", input: "a" }, false)
      yield* walk("/api/llm/complete", { model: "gpt", messages }, true)
      yield* walk("/api/llm/embed", { model: "vectors", input: "a" }, true)
      // A route that is new has to be walked too.
      assert.deepStrictEqual(
        [...walked].toSorted(),
        [
          ...gatewayRoutes.map(({ path: route }) => route),
          ...["", "/compact", "/input_tokens"].map((below) => `/v1/responses${below}`),
          ...ownRoutes()
        ].toSorted()
      )
    }).pipe(Effect.scoped)
  )
})
