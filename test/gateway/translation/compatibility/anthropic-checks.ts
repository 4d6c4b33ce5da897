import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema"
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema"
import { assert } from "@effect/vitest"
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

const ask = ({ model }: Subject, content = question) => ({
  model,
  max_tokens: 100,
  messages: [{ role: "user" as const, content }]
})

const tool = (name: string) => ({ name, input_schema: schema as never })

/** Sends blocks beside a question, and tells what the provider received of them. */
const withBlocks = async (
  subject: Subject,
  blocks: ReadonlyArray<object>,
  words = question
): Promise<ReadonlyArray<object>> => {
  const messages = [{ role: "user" as const, content: [{ type: "text", text: question }, ...blocks] as never }]
  const answer = await subject.anthropic.messages.create({ ...ask(subject), messages })
  assert.deepInclude(answer.content[0], { text: answerTo(subject, words) })
  return subject.standIn === undefined ? [] : receivedParts(subject)
}

const refusedWith =
  (status: number, name: string): Check =>
  async (subject) => {
    await inTurn([false, true], async (stream) => {
      const error = await answering(subject, failureOf(status), () =>
        failing(subject.anthropic.messages.create({ ...ask(subject), stream }))
      )
      assert.deepStrictEqual([error.constructor.name, error.status], [name, status])
      assert.match(error.message, /No luck\./)
      assert.isNotEmpty(error.requestID)
    })
    return undefined
  }

/** What the `@anthropic-ai/sdk` package can do. */
export const anthropicChecks: Readonly<Partial<Record<CapabilityKey, Check>>> = {
  create: async (subject) => {
    const answer = await subject.anthropic.messages.create(ask(subject))
    assert.deepInclude(answer.content[0], { type: "text", text: answerTo(subject, question) })
    assert.strictEqual(answer.stop_reason, "end_turn")
    if (subject.standIn !== undefined) {
      assert.strictEqual(answer.usage.input_tokens, used.input - used.cached)
      assert.strictEqual(answer.usage.cache_read_input_tokens, used.cached)
      assert.strictEqual(answer.usage.output_tokens, used.output)
    }
    return undefined
  },

  stream: async (subject) => {
    const events = await all(await subject.anthropic.messages.create({ ...ask(subject), stream: true }))
    const words = events.map((event) =>
      event.type === "content_block_delta" && event.delta.type === "text_delta" ? event.delta.text : ""
    )
    assert.strictEqual(words.join(""), answerTo(subject, question))
    assert.deepStrictEqual([events[0]?.type, events.at(-1)?.type], ["message_start", "message_stop"])
    assert.lengthOf(
      events.filter(({ type }) => type === "message_start"),
      1
    )
    return undefined
  },

  helper: async (subject) => {
    const stream = subject.anthropic.messages.stream(ask(subject))
    const words: Array<string> = []
    stream.on("text", (delta) => words.push(delta))
    assert.strictEqual(await stream.finalText(), answerTo(subject, question))
    assert.strictEqual(words.join(""), answerTo(subject, question))
    const { stop_reason, usage } = await stream.finalMessage()
    assert.strictEqual(stop_reason, "end_turn")
    if (subject.standIn !== undefined) assert.strictEqual(usage.output_tokens, used.output)
    return undefined
  },

  system: async (subject) => {
    const blocks = [
      { type: "text" as const, text: "Be brief." },
      { type: "text" as const, text: "Be kind." }
    ]
    await inTurn(["Be brief.", blocks], async (system) => {
      const answer = await subject.anthropic.messages.create({ ...ask(subject), system })
      assert.deepInclude(answer.content[0], { text: answerTo(subject, question) })
      if (subject.provider === "Anthropic") assert.deepStrictEqual(received(subject).system, system)
      if (subject.provider === "Responses API") {
        const instructions = typeof system === "string" ? system : "Be brief.\n\nBe kind."
        assert.strictEqual(received(subject).instructions, instructions)
      }
      if (subject.provider === "OpenAI") {
        const content = typeof system === "string" ? system : "Be brief.\n\nBe kind."
        assert.deepStrictEqual(received(subject).messages[0], { role: "system", content })
      }
    })
    return undefined
  },

  limit: async (subject) => {
    const answer = await subject.anthropic.messages.create({ ...ask(subject), max_tokens: 3 })
    assert.strictEqual(answer.stop_reason, "max_tokens")
    return undefined
  },

  tools: async (subject) => {
    await inTurn([false, true], async (stream) => {
      const calls: Array<object> = []
      const weather = betaTool({
        name: "weather",
        description: "Says what the weather is.",
        inputSchema: schema,
        run: (given: object) => {
          calls.push(given)
          return toolResult
        }
      })
      const options = { ...ask(subject), tools: [weather] }
      const { messages } = subject.anthropic.beta
      const runner = stream
        ? messages.toolRunner({ ...options, stream: true })
        : messages.toolRunner({ ...options, stream: false })
      const answer = await runner
      assert.deepInclude(answer.content[0], { text: answerTo(subject, toolResult) })
      assert.deepStrictEqual(calls, [argumentsFor(subject)])
    })
    return undefined
  },

  parallelTools: async (subject) => {
    const { messages } = subject.anthropic
    const request = { ...ask(subject), tools: [tool("weather"), tool("tide")] }
    await inTurn([await messages.create(request), await messages.stream(request).finalMessage()], async (first) => {
      const uses = first.content.flatMap((block) => (block.type === "tool_use" ? [block] : []))
      assert.deepStrictEqual(
        uses.map(({ input, name }) => [name, input]),
        ["weather", "tide"].map((name) => [name, argumentsFor(subject)])
      )
      assert.strictEqual(first.stop_reason, "tool_use")
      const results = uses.map(({ id }) => ({ type: "tool_result" as const, tool_use_id: id, content: toolResult }))
      const second = await messages.create({
        ...request,
        messages: [
          ...request.messages,
          { role: "assistant", content: uses.map(({ id, input, name, type }) => ({ type, id, name, input })) },
          { role: "user", content: results }
        ]
      })
      assert.deepInclude(second.content[0], { text: answerTo(subject, toolResult) })
    })
    return undefined
  },

  toolChoice: async (subject) => {
    const request = { ...ask(subject, "Hello"), tools: [tool("weather")] }
    await inTurn([{ type: "any" }, { type: "tool", name: "weather" }] as const, async (tool_choice) => {
      const answer = await subject.anthropic.messages.create({ ...request, tool_choice })
      assert.strictEqual(answer.content[0]?.type, "tool_use")
      if (subject.provider === "OpenAI") {
        const expected =
          tool_choice.type === "any" ? "required" : { type: "function", function: { name: tool_choice.name } }
        assert.deepStrictEqual(received(subject).tool_choice, expected)
      }
    })
    return undefined
  },

  images: async (subject) => {
    const blocks = [
      { type: "image", source: { type: "base64", media_type: "image/png", data: png } },
      { type: "image", source: { type: "url", url: imageUrl } }
    ]
    const sent = await withBlocks(subject, blocks)
    if (subject.provider === "Anthropic") assert.deepStrictEqual(sent, blocks)
    if (subject.provider === "OpenAI") {
      assert.deepStrictEqual(sent, [
        { type: "image_url", image_url: { url: `data:image/png;base64,${png}` } },
        { type: "image_url", image_url: { url: imageUrl } }
      ])
    }
    return undefined
  },

  documents: async (subject) => {
    const blocks = [
      { type: "document", source: { type: "base64", media_type: "application/pdf", data: pdf }, title: "noon.pdf" },
      { type: "document", source: { type: "text", media_type: "text/plain", data: "Noon." } }
    ]
    const sent = await withBlocks(subject, blocks, `${question}Noon.`)
    if (subject.provider === "Anthropic") assert.deepStrictEqual(sent, blocks)
    if (subject.provider === "OpenAI") {
      assert.deepStrictEqual(sent, [
        { type: "file", file: { filename: "noon.pdf", file_data: `data:application/pdf;base64,${pdf}` } },
        { type: "text", text: "Noon." }
      ])
    }
    return undefined
  },

  json: async (subject) => {
    const output_config = { format: jsonSchemaOutputFormat(schema) }
    const request = { ...ask(subject), output_config }
    for (const answer of [
      await subject.anthropic.messages.parse(request),
      await subject.anthropic.messages.stream(request).finalMessage()
    ]) {
      assert.deepStrictEqual(answer.parsed_output, argumentsFor(subject) as { city: string })
    }
    if (subject.provider === "OpenAI") {
      assert.deepStrictEqual(received(subject).response_format.json_schema, { name: "answer", schema, strict: true })
    }
    return undefined
  },

  reasoning: async (subject) => {
    const thinking = { type: "adaptive" as const, display: "summarized" as const }
    const request = { ...ask(subject), thinking, output_config: { effort: "low" as const } }
    for (const answer of [
      await subject.anthropic.messages.create(request),
      await subject.anthropic.messages.stream(request).finalMessage()
    ]) {
      assert.deepInclude(answer.content[0], { type: "thinking", thinking: thought })
      assert.deepInclude(answer.content[1], { type: "text", text: answerTo(subject, question) })
    }
    if (subject.provider === "OpenAI") assert.strictEqual(received(subject).reasoning_effort, "low")
    if (subject.provider === "Responses API") {
      assert.deepStrictEqual(received(subject).reasoning, { effort: "low", summary: "auto" })
    }
    return undefined
  },

  abort: (subject) =>
    answering(subject, startedStream(subject.provider), async () => {
      const stream = subject.anthropic.messages.stream(ask(subject))
      const error = failing(stream.done())
      for await (const event of stream) {
        if (event.type === "content_block_delta") {
          stream.abort()
          break
        }
      }
      assert.strictEqual((await error).constructor.name, "APIUserAbortError")
      return undefined
    }),

  brokenStream: async (subject) => {
    await inTurn([brokenStream(subject.provider), startedStream(subject.provider, "error")], async (answer) => {
      const error = await answering(subject, answer, () =>
        failing(subject.anthropic.messages.stream(ask(subject)).finalMessage())
      )
      assert.match(error.message, /broke|No luck/)
    })
    return undefined
  },

  tooMany: refusedWith(429, "RateLimitError"),
  outOfOrder: refusedWith(500, "InternalServerError"),

  timeout: async (subject) => {
    const error = await answering(subject, silence, () =>
      failing(subject.anthropic.messages.create({ ...ask(subject), model: subject.hurriedModel }))
    )
    assert.deepStrictEqual([error.constructor.name, error.status], ["GatewayTimeoutError", 504])
    assert.strictEqual(error.error.error.type, "timeout_error")
    return undefined
  },

  models: async ({ anthropic, model }) => {
    // Pages of two, so that the SDK turns them.
    const listed = await all(anthropic.models.list({ limit: 2 }))
    assert.include(
      listed.map(({ id }) => id),
      model
    )
    assert.deepStrictEqual(
      await anthropic.models.retrieve(model),
      listed.find(({ id }) => id === model)
    )
    return "the gateway's own"
  },

  countTokens: async (subject) => {
    const { model } = subject
    const counted = await subject.anthropic.messages.countTokens({ model, messages: ask(subject).messages })
    if (subject.provider === "Anthropic") {
      assert.strictEqual(counted.input_tokens, 42)
      return undefined
    }
    assert.isAbove(counted.input_tokens, 0)
    return "estimated"
  }
}
