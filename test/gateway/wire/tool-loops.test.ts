import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
// oxlint-disable eslint/no-await-in-loop -- each turn follows from the one before
import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { GoogleGenAI } from "@google/genai"
import { ChatAnthropic } from "@langchain/anthropic"
import { HumanMessage, type BaseMessage, ToolMessage } from "@langchain/core/messages"
import { ChatOpenAI } from "@langchain/openai"
import { generateText, type LanguageModel, stepCountIs, streamText, tool } from "ai"
import { Effect } from "effect"
import OpenAI from "openai"
import { z } from "zod"
import { charges, configure, spender } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import {
  cities,
  conclusion,
  loopPrices,
  question,
  scriptedVendors,
  turnCostNanoUsd,
  weatherOf,
  wholeTurns
} from "../../support/scripted-vendors.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- conversations of every format
type Any = any

interface Connection {
  readonly url: string
  readonly key: string
  readonly isStreamed: boolean
}

/** Runs the loop as a client's documentation says: calls the tool until the model answers with words. */
type Loop = (connection: Connection) => Promise<string>

const city = z.object({ city: z.string() })
const schema = { type: "object" as const, properties: { city: { type: "string" } }, required: ["city"] }
const model = "m"
const most = 30_000

/** A streamed message, put together as OpenRouter and Google say: each member that they add is kept. */
const gathered = async (chunks: AsyncIterable<Any>): Promise<Any> => {
  const message: Any = { role: "assistant", content: null }
  for await (const { choices } of chunks) {
    for (const [name, value] of Object.entries<Any>(choices[0]?.delta ?? {})) {
      if (name === "tool_calls")
        for (const { index, ...call } of value) {
          message.tool_calls ??= []
          const before = message.tool_calls[index]
          if (before === undefined) message.tool_calls[index] = call
          else before.function.arguments += call.function.arguments
        }
      else if (Array.isArray(value)) message[name] = [...(message[name] ?? []), ...value]
      else if (name !== "role" && value !== null) message[name] = (message[name] ?? "") + value
    }
  }
  return message
}

const byChat: Loop = async ({ isStreamed, key, url }) => {
  const { completions } = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 }).chat
  const messages: Array<Any> = [{ role: "user", content: question }]
  const tools = [{ type: "function" as const, function: { name: "weather", parameters: schema } }]
  const request = { model, messages, tools, max_completion_tokens: most, reasoning_effort: "high" as const }
  for (;;) {
    const message = isStreamed
      ? await gathered(await completions.create({ ...request, stream: true }))
      : (await completions.create(request)).choices[0]!.message
    messages.push(message)
    if (message.tool_calls === undefined || message.tool_calls.length === 0) return message.content ?? ""
    for (const { function: called, id } of message.tool_calls)
      messages.push({ role: "tool", tool_call_id: id, content: weatherOf(JSON.parse(called.arguments).city) })
  }
}

const byResponses =
  (isStored: boolean): Loop =>
  async ({ isStreamed, key, url }) => {
    const { responses } = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 })
    const tools = [{ type: "function" as const, name: "weather", parameters: schema, strict: false }]
    const shared = { model, tools, max_output_tokens: most, reasoning: { effort: "high" as const }, store: isStored }
    let input: Array<Any> = [{ role: "user", content: question }]
    let previous: string | undefined
    for (;;) {
      const request = { ...shared, input, ...(previous === undefined ? {} : { previous_response_id: previous }) }
      const response = isStreamed ? await responses.stream(request).finalResponse() : await responses.create(request)
      const results = response.output.flatMap((item) =>
        item.type === "function_call"
          ? [
              {
                type: "function_call_output",
                call_id: item.call_id,
                output: weatherOf(JSON.parse(item.arguments).city)
              }
            ]
          : []
      )
      if (results.length === 0) return response.output_text
      if (isStored) [input, previous] = [results, response.id]
      else input = [...input, ...response.output, ...results]
    }
  }

const byMessages: Loop = async ({ isStreamed, key, url }) => {
  const client = new Anthropic({ apiKey: key, baseURL: url, maxRetries: 0, timeout: 60_000 })
  const messages: Array<Anthropic.MessageParam> = [{ role: "user", content: question }]
  const request = {
    model,
    max_tokens: most,
    messages,
    tools: [{ name: "weather", input_schema: schema }],
    thinking: { type: "enabled" as const, budget_tokens: 2000 }
  }
  for (;;) {
    const message = isStreamed
      ? await client.messages.stream(request).finalMessage()
      : await client.messages.create({ ...request, stream: false })
    const { content } = message
    messages.push({ role: "assistant", content })
    const results = content.flatMap((block): ReadonlyArray<Anthropic.ToolResultBlockParam> =>
      block.type === "tool_use"
        ? [{ type: "tool_result", tool_use_id: block.id, content: weatherOf((block.input as Any).city) }]
        : []
    )
    if (results.length === 0) return content.map((block) => (block.type === "text" ? block.text : "")).join("")
    messages.push({ role: "user", content: [...results] })
  }
}

const byGoogle: Loop = async ({ isStreamed, key, url }) => {
  const { models } = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url } })
  const contents: Array<Any> = [{ role: "user", parts: [{ text: question }] }]
  const config = {
    maxOutputTokens: most,
    thinkingConfig: { includeThoughts: true, thinkingBudget: 2000 },
    tools: [{ functionDeclarations: [{ name: "weather", parametersJsonSchema: schema }] }]
  }
  for (;;) {
    const parts: Array<Any> = []
    const request = { model, contents, config }
    const answers = isStreamed ? await models.generateContentStream(request) : [await models.generateContent(request)]
    for await (const { candidates } of answers as AsyncIterable<Any>)
      parts.push(...(candidates?.[0]?.content?.parts ?? []))
    contents.push({ role: "model", parts })
    const results = parts
      .filter(({ functionCall }) => functionCall)
      .map(({ functionCall: { args, id, name } }) => ({
        functionResponse: { id, name, response: { output: weatherOf(args.city) } }
      }))
    if (results.length === 0)
      return parts
        .filter(({ thought }) => !thought)
        .map(({ text }) => text)
        .join("")
    contents.push({ role: "user", parts: results })
  }
}

const byAiSdk =
  (modelOf: (connection: { readonly apiKey: string; readonly baseURL: string }) => LanguageModel): Loop =>
  async ({ isStreamed, key, url }) => {
    const request = {
      model: modelOf({ apiKey: key, baseURL: `${url}/v1` }),
      prompt: question,
      maxOutputTokens: most,
      maxRetries: 0,
      tools: { weather: tool({ inputSchema: city, execute: ({ city }) => weatherOf(city) }) },
      stopWhen: stepCountIs(5),
      providerOptions: {
        anthropic: { thinking: { type: "enabled", budgetTokens: 2000 } },
        openai: { reasoningEffort: "high", store: false }
      }
    }
    return isStreamed ? await streamText(request).text : (await generateText(request)).text
  }

const byLangChain =
  (modelOf: (connection: Connection) => ChatOpenAI | ChatAnthropic): Loop =>
  async (connection) => {
    const chat = (modelOf(connection) as ChatOpenAI).bindTools([
      { type: "function", function: { name: "weather", parameters: schema } }
    ])
    const messages: Array<BaseMessage> = [new HumanMessage(question)]
    for (;;) {
      let message: Any
      if (connection.isStreamed) {
        for await (const chunk of await chat.stream(messages))
          message = message === undefined ? chunk : message.concat(chunk)
      } else message = await chat.invoke(messages)
      messages.push(message)
      if (message.tool_calls.length === 0) return message.text
      for (const { args, id } of message.tool_calls)
        messages.push(new ToolMessage({ content: weatherOf(args.city), tool_call_id: id }))
    }
  }

const loops: Readonly<Record<string, Loop>> = {
  "OpenAI's SDK, by chat": byChat,
  "OpenAI's SDK, by responses": byResponses(false),
  "OpenAI's SDK, by stored responses": byResponses(true),
  "Anthropic's SDK": byMessages,
  "Google's SDK": byGoogle,
  "the AI SDK, by default": byAiSdk((at) => createOpenAI(at)(model)),
  "the AI SDK, by chat": byAiSdk((at) => createOpenAI(at).chat(model)),
  "the AI SDK, for compatible providers": byAiSdk((at) => createOpenAICompatible({ name: "gateway", ...at })(model)),
  "the AI SDK, for Anthropic": byAiSdk((at) => createAnthropic(at)(model)),
  "LangChain, by chat": byLangChain(
    ({ key, url }) => new ChatOpenAI({ model, apiKey: key, maxRetries: 0, configuration: { baseURL: `${url}/v1` } })
  ),
  "LangChain, by responses": byLangChain(
    ({ key, url }) =>
      new ChatOpenAI({
        model,
        apiKey: key,
        maxRetries: 0,
        useResponsesApi: true,
        configuration: { baseURL: `${url}/v1` }
      })
  ),
  "LangChain, for Anthropic": byLangChain(
    ({ key, url }) => new ChatAnthropic({ model, apiKey: key, maxTokens: 8000, maxRetries: 0, anthropicApiUrl: url })
  )
}

Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

/** Clients that keep of a turn its words and its calls, and only the thoughts named here. */
const forgetful: Readonly<Record<string, ReadonlySet<string>>> = {
  "the AI SDK, by chat": new Set(),
  "the AI SDK, for compatible providers": new Set(["deepseek", "moonshot", "google"]),
  "LangChain, by chat": new Set()
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })(
  "a loop of three turns with a tool",
  (it) => {
    for (const [vendorName, vendor] of Object.entries(scriptedVendors)) {
      for (const [name, loop] of Object.entries(loops)) {
        it.effect(`${name}, with ${vendorName} behind, ends and is charged exactly`, () =>
          Effect.gen(function* () {
            const service = yield* TestService
            const standIn = yield* startProvider(vendor.answer)
            yield* configure(
              service,
              [{ id: vendorName, ...vendor.provider(standIn.url) }],
              [
                {
                  id: model,
                  kind: "chat",
                  prices: loopPrices,
                  targets: [{ provider: vendorName, model: vendor.model }]
                }
              ]
            )
            const { key, tenantId } = yield* spender(service, [{ limit: 10 }])
            for (const isStreamed of [false, true]) {
              const answer = yield* Effect.promise(() => loop({ url: service.url, key, isStreamed }))
              assert.strictEqual(answer, conclusion)
            }
            const returns = vendor.isWhole === undefined || (forgetful[name]?.has(vendorName) ?? true)
            assert.strictEqual(wholeTurns(vendor, standIn.requests), returns)
            const turns = 2 * (cities.length + 1)
            assert.strictEqual(standIn.requests.length, turns)
            const charge = { amount: String(turnCostNanoUsd), state: "settled", method: "provider_usage" }
            assert.deepStrictEqual(
              yield* charges(service, tenantId),
              Array.from({ length: turns }, () => charge)
            )
          }).pipe(Effect.scoped)
        )
      }
    }
  }
)
