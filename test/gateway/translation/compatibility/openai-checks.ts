import { assert } from "@effect/vitest"
import { makeParseableResponseFormat } from "openai/lib/parser"
import { thought, used } from "../../../support/vendors.ts"
import { type CapabilityKey } from "./capabilities.ts"
import { brokenStream, failureOf, silence, startedStream } from "./failures.ts"
import {
  all,
  answering,
  answerTo,
  argumentsFor,
  type Check,
  failing,
  imageUrl,
  inTurn,
  pdf,
  png,
  question,
  received,
  receivedParts,
  schema,
  type Subject,
  toolResult
} from "./subject.ts"

const ask = ({ model }: Subject, content = question) => ({ model, messages: [{ role: "user" as const, content }] })

const tool = (name: string) => ({ type: "function" as const, function: { name, parameters: schema } })

const format = makeParseableResponseFormat(
  { type: "json_schema", json_schema: { name: "place", schema, strict: true } },
  (text) => JSON.parse(text) as { readonly city: string }
)

const asked = (parts: ReadonlyArray<object>) => [{ type: "text", text: question }, ...parts]

/** Sends parts beside a question, and tells what the provider received of them. */
const withParts = async (subject: Subject, parts: ReadonlyArray<object>): Promise<ReadonlyArray<object>> => {
  const messages = [{ role: "user" as const, content: asked(parts) as never }]
  const answer = await subject.openai.chat.completions.create({ model: subject.model, messages })
  assert.strictEqual(answer.choices[0]?.message.content, answerTo(subject, question))
  return subject.standIn === undefined ? [] : receivedParts(subject)
}

/** What those who speak OpenAI's dialect add to it, and its SDK hands on unnamed. */
const thoughtIn = (said: object | undefined): unknown =>
  said !== undefined && "reasoning_content" in said ? said.reasoning_content : ""

const refusedWith =
  (status: number, name: string): Check =>
  async (subject) => {
    await inTurn([false, true], async (stream) => {
      const error = await answering(subject, failureOf(status), () =>
        failing(subject.openai.chat.completions.create({ ...ask(subject), stream }))
      )
      assert.deepStrictEqual([error.constructor.name, error.status], [name, status])
      assert.match(error.message, /No luck\./)
      assert.isNotEmpty(error.requestID)
    })
    return undefined
  }

/** What the `openai` package can do. */
export const openAiChecks: Readonly<Partial<Record<CapabilityKey, Check>>> = {
  create: async (subject) => {
    const answer = await subject.openai.chat.completions.create(ask(subject))
    const [choice] = answer.choices
    assert.strictEqual(choice?.message.content, answerTo(subject, question))
    assert.strictEqual(choice?.finish_reason, "stop")
    if (subject.standIn !== undefined) {
      assert.strictEqual(answer.usage?.prompt_tokens, used.input)
      assert.strictEqual(answer.usage?.completion_tokens, used.output)
      assert.strictEqual(answer.usage?.prompt_tokens_details?.cached_tokens, used.cached)
      assert.strictEqual(answer.usage?.completion_tokens_details?.reasoning_tokens, used.reasoning)
    }
    return undefined
  },

  stream: async (subject) => {
    await inTurn([true, false], async (include_usage) => {
      const stream = await subject.openai.chat.completions.create({
        ...ask(subject),
        stream: true,
        ...(include_usage ? { stream_options: { include_usage } } : {})
      })
      const chunks = await all(stream)
      assert.strictEqual(chunks[0]?.choices[0]?.delta.role, "assistant")
      const words = chunks.map(({ choices }) => choices[0]?.delta.content ?? "")
      assert.strictEqual(words.join(""), answerTo(subject, question))
      const told = chunks.flatMap(({ usage }) => usage ?? [])
      assert.lengthOf(told, include_usage ? 1 : 0)
      if (include_usage && subject.standIn !== undefined) {
        assert.strictEqual(told[0]?.total_tokens, used.input + used.output)
      }
    })
    return undefined
  },

  helper: async (subject) => {
    const stream = subject.openai.chat.completions.stream(ask(subject))
    const words: Array<string> = []
    stream.on("content", (delta) => words.push(delta))
    assert.strictEqual(await stream.finalContent(), answerTo(subject, question))
    assert.strictEqual(words.join(""), answerTo(subject, question))
    return undefined
  },

  system: async (subject) => {
    const messages = [
      { role: "system" as const, content: "Be brief." },
      { role: "developer" as const, content: "Be kind." },
      ...ask(subject).messages
    ]
    const answer = await subject.openai.chat.completions.create({ model: subject.model, messages })
    assert.strictEqual(answer.choices[0]?.message.content, answerTo(subject, question))
    if (subject.provider === "OpenAI") assert.deepStrictEqual(received(subject).messages, messages)
    if (subject.provider === "Anthropic") {
      assert.deepStrictEqual(received(subject).system, [
        { type: "text", text: "Be brief." },
        { type: "text", text: "Be kind." }
      ])
      assert.lengthOf(received(subject).messages, 1)
    }
    if (subject.provider === "Responses API") {
      assert.strictEqual(received(subject).instructions, "Be brief.\n\nBe kind.")
      assert.lengthOf(received(subject).input, 1)
    }
    return undefined
  },

  limit: async (subject) => {
    const answer = await subject.openai.chat.completions.create({ ...ask(subject), max_completion_tokens: 3 })
    assert.strictEqual(answer.choices[0]?.finish_reason, "length")
    return undefined
  },

  tools: async (subject) => {
    await inTurn([false, true], async (stream) => {
      const calls: Array<object> = []
      const options = {
        ...ask(subject),
        tools: [
          {
            type: "function" as const,
            function: {
              name: "weather",
              description: "Says what the weather is.",
              parameters: schema as never,
              parse: (text: string) => JSON.parse(text) as object,
              function: (given: object) => {
                calls.push(given)
                return toolResult
              }
            }
          }
        ]
      }
      const { completions } = subject.openai.chat
      const runner = stream
        ? completions.runTools({ ...options, stream: true })
        : completions.runTools({ ...options, stream: false })
      assert.strictEqual(await runner.finalContent(), answerTo(subject, toolResult))
      assert.deepStrictEqual(calls, [argumentsFor(subject)])
    })
    return undefined
  },

  parallelTools: async (subject) => {
    const { completions } = subject.openai.chat
    const request = { ...ask(subject), tools: [tool("weather"), tool("tide")] }
    await inTurn(
      [await completions.create(request), await completions.stream(request).finalChatCompletion()],
      async (first) => {
        const message = first.choices[0]?.message ?? assert.fail("no message")
        const calls = (message.tool_calls ?? []).flatMap((call) => (call.type === "function" ? [call] : []))
        assert.deepStrictEqual(
          calls.map(({ function: called }) => [called.name, JSON.parse(called.arguments)]),
          ["weather", "tide"].map((name) => [name, argumentsFor(subject)])
        )
        assert.strictEqual(first.choices[0]?.finish_reason, "tool_calls")
        const results = calls.map(({ id }) => ({ role: "tool" as const, tool_call_id: id, content: toolResult }))
        const messages = [
          ...request.messages,
          { role: "assistant" as const, content: message.content, tool_calls: calls },
          ...results
        ]
        const second = await completions.create({ ...request, messages })
        assert.strictEqual(second.choices[0]?.message.content, answerTo(subject, toolResult))
      }
    )
    return undefined
  },

  toolChoice: async (subject) => {
    const request = { ...ask(subject, "Hello"), tools: [tool("weather")] }
    await inTurn(["required", { type: "function", function: { name: "weather" } }] as const, async (tool_choice) => {
      const answer = await subject.openai.chat.completions.create({ ...request, tool_choice })
      assert.lengthOf(answer.choices[0]?.message.tool_calls ?? [], 1)
      if (subject.provider === "Anthropic") {
        const { type } = received(subject).tool_choice
        assert.strictEqual(type, tool_choice === "required" ? "any" : "tool")
      }
      if (subject.provider === "Responses API") {
        const named = { type: "function", name: "weather" }
        assert.deepStrictEqual(received(subject).tool_choice, tool_choice === "required" ? "required" : named)
      }
    })
    return undefined
  },

  images: async (subject) => {
    const url = `data:image/png;base64,${png}`
    const parts = [
      { type: "image_url", image_url: { url } },
      { type: "image_url", image_url: { url: imageUrl } }
    ]
    const sent = await withParts(subject, parts)
    if (subject.provider === "OpenAI") assert.deepStrictEqual(sent, parts)
    if (subject.provider === "Anthropic") {
      assert.deepStrictEqual(sent, [
        { type: "image", source: { type: "base64", media_type: "image/png", data: png } },
        { type: "image", source: { type: "url", url: imageUrl } }
      ])
    }
    if (subject.provider === "Responses API") {
      assert.deepStrictEqual(
        sent,
        [url, imageUrl].map((image_url) => ({ type: "input_image", image_url, detail: "auto" }))
      )
    }
    return undefined
  },

  documents: async (subject) => {
    const file = { filename: "noon.pdf", file_data: `data:application/pdf;base64,${pdf}` }
    const sent = await withParts(subject, [{ type: "file", file }])
    if (subject.provider === "OpenAI") assert.deepStrictEqual(sent, [{ type: "file", file }])
    if (subject.provider === "Anthropic") {
      assert.deepStrictEqual(sent, [
        { type: "document", source: { type: "base64", media_type: "application/pdf", data: pdf }, title: "noon.pdf" }
      ])
    }
    if (subject.provider === "Responses API") assert.deepStrictEqual(sent, [{ type: "input_file", ...file }])
    return undefined
  },

  json: async (subject) => {
    const { completions } = subject.openai.chat
    const request = { ...ask(subject), response_format: format }
    for (const answer of [await completions.parse(request), await completions.stream(request).finalChatCompletion()]) {
      assert.deepStrictEqual(answer.choices[0]?.message.parsed, argumentsFor(subject) as { readonly city: string })
    }
    if (subject.provider === "Anthropic") {
      assert.deepStrictEqual(received(subject).output_config, { format: { type: "json_schema", schema } })
    }
    if (subject.provider === "Responses API") {
      const format = { type: "json_schema", name: "place", schema, strict: true }
      assert.deepStrictEqual(received(subject).text, { format })
    }
    return undefined
  },

  reasoning: async (subject) => {
    const request = { ...ask(subject), reasoning_effort: "max" as const, temperature: 0.2, max_completion_tokens: 4000 }
    const answer = await subject.openai.chat.completions.create(request)
    assert.strictEqual(thoughtIn(answer.choices[0]?.message), thought)
    assert.strictEqual(answer.usage?.completion_tokens_details?.reasoning_tokens, used.reasoning)
    const chunks = await all(await subject.openai.chat.completions.create({ ...request, stream: true }))
    const thoughts = chunks.map(({ choices }) => thoughtIn(choices[0]?.delta))
    assert.strictEqual(thoughts.join(""), thought)
    if (subject.provider === "Anthropic") {
      assert.deepStrictEqual(received(subject).thinking, { type: "adaptive", display: "summarized" })
      assert.deepStrictEqual(received(subject).output_config, { effort: "max" })
    }
    if (subject.provider === "Responses API") assert.deepStrictEqual(received(subject).reasoning, { effort: "max" })
    return undefined
  },

  abort: (subject) =>
    answering(subject, startedStream(subject.provider), async () => {
      const stream = await subject.openai.chat.completions.create({ ...ask(subject), stream: true })
      for await (const chunk of stream) {
        if (chunk.choices[0]?.delta.content) break
      }
      return undefined
    }),

  brokenStream: async (subject) => {
    await inTurn([brokenStream(subject.provider), startedStream(subject.provider, "error")], async (answer) => {
      const error = await answering(subject, answer, () =>
        failing(subject.openai.chat.completions.stream(ask(subject)).finalChatCompletion())
      )
      assert.match(error.message, /broke|No luck/)
    })
    return undefined
  },

  tooMany: refusedWith(429, "RateLimitError"),
  outOfOrder: refusedWith(500, "InternalServerError"),

  timeout: async (subject) => {
    const error = await answering(subject, silence, () =>
      failing(subject.openai.chat.completions.create({ ...ask(subject), model: subject.hurriedModel }))
    )
    assert.deepStrictEqual([error.constructor.name, error.status], ["InternalServerError", 504])
    return undefined
  },

  embeddings: async (subject) => {
    const model = subject.provider === "OpenAI" ? "vectors" : subject.model
    const create = (options: object) => subject.openai.embeddings.create({ model, input: ["a", "b"], ...options })
    if (subject.provider === "Anthropic" || subject.provider === "Responses API") {
      const error = await failing(create({}))
      assert.strictEqual(error.constructor.name, "BadRequestError")
      return subject.provider === "Anthropic" ? "refused: its dialect has none" : "refused: it has none"
    }
    // The SDK asks for base64 by itself, and reads it; who asks for numbers gets those.
    const decoded = await create({})
    const numbers = await create({ encoding_format: "float" })
    assert.lengthOf(decoded.data, 2)
    assert.deepStrictEqual(decoded.data, numbers.data)
    if (subject.provider === "OpenAI") assert.deepStrictEqual(decoded.data[0]?.embedding, [0.5, -0.25, 1])
    return undefined
  },

  models: async ({ model, openai }) => {
    const listed = await all(openai.models.list())
    assert.include(
      listed.map(({ id }) => id),
      model
    )
    assert.deepStrictEqual(
      await openai.models.retrieve(model),
      listed.find(({ id }) => id === model)
    )
    return "the gateway's own"
  }
}
