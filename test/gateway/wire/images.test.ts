import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { imageUsage, imageVendor, pixel } from "../../support/media-vendor.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/v1/images/generations"

/** The prices of gpt-image-1. */
const prices = {
  inputUsdPerMTok: 5,
  outputUsdPerMTok: 40,
  cacheReadUsdPerMTok: 1.25,
  imageInputUsdPerMTok: 10,
  imageOutputUsdPerMTok: 40
}
/** What an image of the stand-in costs, in nano-dollars. */
const perImage = imageUsage.text * 5000 + imageUsage.output * 40_000
const usdOf = (nanoUsd: number) => nanoUsd / 1e9

const byImage: Answerer = ({ body }, response) =>
  json(response, 200, {
    created: 1,
    data: Array.from({ length: body.n ?? 1 }, () => ({ url: "https://a/b.png" }))
  })

/** A whole answer with a usage. */
const whole =
  (usage: unknown): Answerer =>
  (_, response) =>
    json(response, 200, { created: 1, data: [{ b64_json: pixel }], usage })
const brokenOff: Answerer = (_, response) => {
  const event = { type: "image_generation.partial_image", b64_json: pixel, partial_image_index: 0 }
  sse(response, [`event: ${event.type}\n`, event])
  setImmediate(() => response.destroy())
}

const setting = (caps: ReadonlyArray<object>, answer: Answerer = imageVendor) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const standIn = yield* startProvider(answer)
    const members = { kind: "image", prices }
    yield* configure(
      service,
      [provider("openai", standIn)],
      [
        model("gpt-image-1", ["openai"], members),
        model("gpt-image-1.5", ["openai"], members),
        model("painter", ["openai"], members),
        model("gpt", ["openai"])
      ]
    )
    const { key, tenantId } = yield* spender(service, caps)
    const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
    const rows = (count: number) =>
      Effect.map(
        eventually(
          service.call("GET", `/api/usage?tenantId=${tenantId}`),
          ({ body: { items } }) => items.length === count
        ),
        ({ body: { items } }) => items
      )
    const asked = (body: object) =>
      service.call("POST", path, { key, body: { model: "gpt-image-1", prompt: "A cat", ...body } })
    return { asked, client, key, rows, service, standIn, tenantId }
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  it.effect("is served unchanged to OpenAI's SDK, and charged by its tokens of text and of images", () =>
    Effect.gen(function* () {
      const { client, rows, standIn } = yield* setting([{ limit: 5 }])
      const body = { model: "gpt-image-1", prompt: "A cat", n: 2, size: "1024x1024", quality: "medium" } as const
      const made = yield* Effect.promise(() => client.images.generate(body))
      assert.deepStrictEqual(
        made.data?.map(({ b64_json: image }) => image),
        [pixel, pixel]
      )
      assert.deepStrictEqual(
        standIn.requests.map(({ body: sent, path: at }) => [at, sent]),
        [[path, body]]
      )
      const [row] = yield* rows(1)
      assert.deepInclude(row, {
        costUsd: usdOf(2 * perImage),
        inputTokens: 2 * imageUsage.text,
        operation: "generate-image",
        outputTokens: 2 * imageUsage.output,
        status: 200
      })
    }).pipe(Effect.scoped)
  )

  it.effect("streams its partial images, whose usage is in the last event", () =>
    Effect.gen(function* () {
      const { client, rows } = yield* setting([{ limit: 5 }])
      const types = yield* Effect.promise(async () => {
        const stream = await client.images.generate({
          model: "gpt-image-1",
          prompt: "A cat",
          stream: true,
          partial_images: 2
        })
        const seen: Array<string> = []
        for await (const event of stream) seen.push(event.type)
        return seen
      })
      const partial = "image_generation.partial_image"
      assert.deepStrictEqual(types, [partial, partial, "image_generation.completed"])
      const [row] = yield* rows(1)
      assert.deepInclude(row, { costUsd: usdOf(perImage + 200 * 40_000), outputTokens: imageUsage.output + 200 })
    }).pipe(Effect.scoped)
  )

  it.effect("keeps free what the dearest image costs that may be meant", () =>
    Effect.gen(function* () {
      // The input is bounded by the bytes, for each image: at most half a cent here.
      const slackNanoUsd = 5_000_000
      const bounds: ReadonlyArray<readonly [object, number]> = [
        [{ size: "1024x1024", quality: "low" }, 272],
        [{ size: "1024x1536", quality: "medium" }, 1584],
        [{ quality: "medium" }, 1584],
        [{ size: "auto", quality: "auto" }, 6240],
        [{ size: "1024x1024" }, 4160],
        [{ size: "640x480" }, 6240],
        [{ n: 3, size: "1024x1024", quality: "low" }, 3 * 272],
        [{ size: "1024x1024", quality: "low", stream: true, partial_images: 3 }, 572]
      ]
      for (const [members, tokens] of bounds) {
        const dearest = tokens * 40_000
        const tight = yield* setting([{ limit: usdOf(dearest) }])
        const refused = yield* tight.asked(members)
        assert.strictEqual(refused.status, 402, `${JSON.stringify(members)} ${refused.text}`)
        assert.lengthOf(tight.standIn.requests, 0)
        const wide = yield* setting([{ limit: usdOf(dearest + slackNanoUsd) }])
        const admitted = yield* wide.asked(members)
        assert.notStrictEqual(admitted.status, 402, `${JSON.stringify(members)} ${admitted.text}`)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is refused under a hard cap where nothing says what an image costs at most", () =>
    Effect.gen(function* () {
      const { asked, rows, standIn } = yield* setting([{ limit: 5 }])
      // A text without a limit stands beside each image of the one, and nothing is known of the other.
      for (const name of ["gpt-image-1.5", "painter"]) {
        const refused = yield* asked({ model: name })
        assert.deepStrictEqual([refused.status, refused.body.error.code], [403, "cost_unbounded"], refused.text)
      }
      const other = yield* asked({ image_prompt_strength: 1 })
      assert.deepStrictEqual([other.status, other.body.error.param], [403, "image_prompt_strength"], other.text)
      assert.lengthOf(standIn.requests, 0)
      const soft = yield* setting([{ limit: 5, mode: "soft" }])
      assert.strictEqual((yield* soft.asked({ model: "painter" })).status, 200)
      assert.lengthOf(yield* soft.rows(1), 1)
      assert.lengthOf(yield* rows(0), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("is charged as it was bounded where its usage cannot be believed, or it breaks off", () =>
    Effect.gen(function* () {
      const members = { size: "1024x1024", quality: "low" }
      const answers: ReadonlyArray<readonly [Answerer, object]> = [
        [whole(undefined), {}],
        [whole({ input_tokens: -5, output_tokens: -1056, total_tokens: -1061 }), {}],
        [whole({ input_tokens: "NaN", output_tokens: "NaN" }), {}],
        [whole({ input_tokens: 12, output_tokens: 0, total_tokens: 12 }), {}],
        [brokenOff, { stream: true }]
      ]
      for (const [answer, more] of answers) {
        const { asked, rows } = yield* setting([{ limit: 5 }], answer)
        yield* asked({ ...members, ...more })
        const [row] = yield* rows(1)
        assert.deepInclude(row, { outputTokens: 272, method: "estimated" }, JSON.stringify(row))
        assert.isAtLeast(row.costUsd, (272 * 40) / 1e6)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("charges text that is written beside an image by its own price, and what contradicts it as images", () =>
    Effect.gen(function* () {
      const usages: ReadonlyArray<readonly [object, number]> = [
        [{ image_tokens: 272, text_tokens: 209 }, 272 * 40_000 + 209 * 40_000],
        [{ image_tokens: 0, text_tokens: 0 }, 481 * 40_000],
        [{ image_tokens: 272, text_tokens: 9999 }, 481 * 40_000]
      ]
      for (const [output_tokens_details, output] of usages) {
        const { asked, rows } = yield* setting([{ limit: 5, mode: "soft" }], (_, response) =>
          json(response, 200, {
            created: 1,
            data: [{ b64_json: pixel }],
            usage: { input_tokens: 48, output_tokens: 481, total_tokens: 529, output_tokens_details }
          })
        )
        assert.strictEqual((yield* asked({ model: "gpt-image-1.5" })).status, 200)
        const [row] = yield* rows(1)
        assert.strictEqual(row.costUsd, usdOf(48 * 5000 + output))
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is charged by the image where it is sold so", () =>
    Effect.gen(function* () {
      const sold = {
        inputUsdPerMTok: 0,
        image: [
          { size: "1024x1024", usd: 0.04 },
          { size: "1792x1024", usd: 0.08 }
        ]
      }
      const images = (members: object, limit: number) =>
        Effect.gen(function* () {
          const made = yield* setting([{ limit }], byImage)
          const { service, standIn } = made
          yield* configure(
            service,
            [provider("openai", standIn)],
            [model("dall-e-3", ["openai"], { kind: "image", prices: sold })]
          )
          return { ...made, answered: yield* made.asked({ model: "dall-e-3", ...members }) }
        })
      const costs: ReadonlyArray<readonly [object, number]> = [
        // What it makes unless it is asked for another one.
        [{}, 0.04],
        [{ size: "1024x1024" }, 0.04],
        [{ size: "1792x1024" }, 0.08],
        [{ size: "1024x1024", quality: "standard", n: 3 }, 0.12],
        [{ size: "640x480", quality: "hd", n: 2 }, 0.16]
      ]
      for (const [members, costUsd] of costs) {
        assert.strictEqual((yield* images(members, usdOf(costUsd * 1e9 - 1))).answered.status, 402)
        const { answered, rows } = yield* images(members, costUsd)
        assert.strictEqual(answered.status, 200, answered.text)
        const [row] = yield* rows(1)
        assert.deepInclude(row, { costUsd, inputTokens: 0, outputTokens: 0 }, JSON.stringify(members))
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is refused for models that make no images, and without a prompt", () =>
    Effect.gen(function* () {
      const { asked, service, standIn } = yield* setting([])
      const chat = yield* asked({ model: "gpt" })
      assert.deepStrictEqual([chat.status, chat.body.error.code], [400, "model_not_supported"])
      for (const [member, value] of [
        ["prompt", 1],
        ["n", 0],
        ["partial_images", -1]
      ] as const) {
        const refused = yield* asked({ [member]: value })
        assert.deepStrictEqual([refused.status, refused.body.error.param], [400, member], refused.text)
      }
      assert.lengthOf(standIn.requests, 0)
      const loopback = yield* service.call("POST", path, {
        body: { model: "loopback-1", prompt: "A lighthouse at night", n: 2 }
      })
      assert.strictEqual(loopback.status, 200, loopback.text)
      assert.lengthOf(loopback.body.data, 2)
    }).pipe(Effect.scoped)
  )
})
