import { AnthropicBedrock } from "@anthropic-ai/bedrock-sdk"
import {
  BedrockRuntimeClient,
  InvokeModelCommand,
  InvokeModelWithResponseStreamCommand
} from "@aws-sdk/client-bedrock-runtime"
import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { bedrockPlatform } from "../../../src/gateway/providers/platforms/bedrock.ts"
import { signed } from "../../../src/platform/outbound/aws-signature.ts"
import { environmentKeys, exceptionFrame, region, startAws } from "../../support/aws-vendor.ts"
import { said } from "../../support/vendors.ts"

const claude = "us.anthropic.claude-sonnet-5-v1:0"
const arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"

/** A request as the client has signed it. */
interface HttpRequest {
  readonly method: string
  readonly path: string
  readonly headers: Record<string, string>
  readonly body: Uint8Array<ArrayBuffer>
}

const { accessKeyId, secretAccessKey } = environmentKeys
const messages = [{ role: "user" as const, content: "Wie spät ist es? \u{1F550}" }]
const asked = { max_tokens: 100, messages }

const setting = Effect.gen(function* () {
  const { standIn, state } = yield* startAws()
  const bedrock = new AnthropicBedrock({
    baseURL: standIn.url,
    awsRegion: region,
    awsAccessKey: accessKeyId,
    awsSecretKey: secretAccessKey,
    apiKey: null,
    maxRetries: 0
  })
  // It would speak HTTP/2.
  const runtime = new BedrockRuntimeClient({
    endpoint: standIn.url,
    region,
    credentials: { accessKeyId, secretAccessKey },
    maxAttempts: 1,
    requestHandler: {
      handle: async ({ body, headers, method, path }: HttpRequest) => {
        const answer = await fetch(`${standIn.url}${path}`, { method, headers, body })
        return {
          response: { statusCode: answer.status, headers: Object.fromEntries(answer.headers), body: answer.body }
        }
      }
    }
  })
  return { bedrock, runtime, standIn, state }
})

const ours = (model: string, streams: boolean) => {
  const body = JSON.stringify({ model, stream: streams, ...asked })
  const headers = { "anthropic-version": "2026-10-21", "anthropic-beta": "context-1m-2025-08-07" }
  const made = bedrockPlatform("https://bedrock-runtime.us-east-1.amazonaws.com", "invoke", "anthropic").request(
    anthropicMessages,
    model,
    streams,
    { headers, body }
  )
  assert(made !== undefined)
  return made
}

const bodyOf = (body: string | Uint8Array) => JSON.parse(typeof body === "string" ? body : Buffer.from(body).toString())

layer(Layer.empty)("the vendors' own clients of Bedrock", (it) => {
  it.effect("are answered by the stand-in, whole and as a stream, and told an exception", () =>
    Effect.gen(function* () {
      const { bedrock, state } = yield* setting
      const whole = yield* Effect.promise(() => bedrock.messages.create({ model: claude, ...asked }))
      assert.deepInclude(whole.content[0], { type: "text", text: said })
      const streamed = yield* Effect.promise(() => bedrock.messages.stream({ model: claude, ...asked }).finalMessage())
      assert.deepStrictEqual(streamed.content, whole.content)
      state.frames = (frames) => [...frames.slice(0, 5), exceptionFrame("throttlingException", "Too many tokens")]
      const failed = yield* Effect.flip(
        Effect.tryPromise(() => bedrock.messages.stream({ model: claude, ...asked }).finalMessage())
      )
      assert.include(String(failed.cause), "Too many tokens")
    }).pipe(Effect.scoped)
  )

  it.effect("are refused by it with a wrong secret and a wrong clock", () =>
    Effect.gen(function* () {
      const { bedrock, state } = yield* setting
      const ask = Effect.flip(Effect.tryPromise(() => bedrock.messages.create({ model: claude, ...asked })))
      state.ahead = 301_000
      assert.include(String((yield* ask).cause), "403")
      state.ahead = 0
      state.keys.set(accessKeyId, { ...environmentKeys, secretAccessKey: "another" })
      assert.include(String((yield* ask).cause), "403")
    }).pipe(Effect.scoped)
  )

  it.effect("send what the gateway sends: the same path to AWS, body and signature", () =>
    Effect.gen(function* () {
      const { bedrock, runtime, standIn } = yield* setting
      const headers = { "anthropic-beta": "context-1m-2025-08-07", "anthropic-version": "2026-10-21" }
      for (const model of [claude, arn]) {
        for (const streams of [false, true]) {
          const { body, path } = ours(model, streams)
          yield* Effect.promise(async () => {
            const answer = await bedrock.messages.create({ model, ...asked, stream: streams }, { headers })
            if (Symbol.asyncIterator in answer) for await (const _ of answer) continue
          })
          const theirs = standIn.requests.at(-1)
          assert.strictEqual(decodeURIComponent(theirs?.path ?? ""), decodeURIComponent(path))
          assert.deepStrictEqual(theirs?.body, bodyOf(body))
          const command = { modelId: model, body, contentType: "application/json" }
          yield* Effect.promise(async () => {
            const answer = await (streams
              ? runtime.send(new InvokeModelWithResponseStreamCommand(command))
              : runtime.send(new InvokeModelCommand(command)))
            const read = answer.body
            if (read !== undefined && Symbol.asyncIterator in read) for await (const _ of read) continue
          })
          const aws = standIn.requests.at(-1)
          assert.strictEqual(aws?.path, path)
          assert.deepStrictEqual(aws?.body, bodyOf(body))
          // The signature of the same headers at the same moment is the same.
          const names = /SignedHeaders=([^,]+)/.exec(aws?.headers.authorization ?? "")?.[1]?.split(";") ?? []
          const given = Object.fromEntries(
            names
              .filter((name) => !["host", "x-amz-date"].includes(name))
              .map((name) => [name, String(aws?.headers[name])])
          )
          const moment = String(aws?.headers["x-amz-date"])
          const at = new Date(moment.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, "$1-$2-$3T$4:$5:$6Z"))
          const { authorization } = yield* signed(
            {
              method: "POST",
              url: new URL(`${standIn.url}${path}`),
              headers: given,
              body,
              service: "bedrock",
              region,
              at
            },
            { accessKeyId: Redacted.make(accessKeyId), secretAccessKey: Redacted.make(secretAccessKey) }
          )
          assert.strictEqual(authorization, aws?.headers.authorization)
        }
      }
    }).pipe(Effect.scoped)
  )
})
