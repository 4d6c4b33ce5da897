import { createAnthropic } from "@ai-sdk/anthropic"
import { createOpenAI } from "@ai-sdk/openai"
import { createOpenAICompatible } from "@ai-sdk/openai-compatible"
import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { ChatAnthropic } from "@langchain/anthropic"
import { ChatOpenAI } from "@langchain/openai"
import { Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, tool as agentTool } from "@openai/agents"
import { generateText, type LanguageModel, stepCountIs, streamText, tool } from "ai"
import { Effect, Record } from "effect"
import OpenAI from "openai"
import { zodFunction } from "openai/helpers/zod"
import { z } from "zod"
import { clientFeatures, type ClientName, servedBy } from "../../support/client-features.ts"
import { charges, configure, costNanoUsd, model, provider, spender } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { makeResponsesVendor } from "../../support/responses-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor, said } from "../../support/vendors.ts"

interface Connection {
  readonly baseURL: string
  readonly apiKey: string
  /** The model that is asked for. */
  readonly name: string
}

const city = z.object({ city: z.string() })

const withAiSdk =
  (modelOf: (connection: Connection) => LanguageModel) =>
  async (connection: Connection): Promise<ReadonlyArray<string>> => {
    const request = {
      model: modelOf(connection),
      prompt: "Hi",
      maxOutputTokens: 100,
      tools: { weather: tool({ inputSchema: city, execute: () => "Rain" }) },
      stopWhen: stepCountIs(3)
    }
    const whole = await generateText(request)
    return [whole.text, await streamText(request).text]
  }

const weather = z.toJSONSchema(city)

/** A tool's turn and the answer to it, whole and streamed. */
const withResponses = async ({ apiKey, baseURL, name: model }: Connection): Promise<ReadonlyArray<string>> => {
  const { responses } = new OpenAI({ apiKey, baseURL })
  const tools = [{ type: "function" as const, name: "weather", parameters: weather, strict: false }]
  const asked: OpenAI.Responses.ResponseInput = [{ role: "user", content: "Hi" }]
  const afterTool = (output: ReadonlyArray<object>): OpenAI.Responses.ResponseInput => [
    ...asked,
    ...(output as OpenAI.Responses.ResponseInput),
    ...(output as ReadonlyArray<OpenAI.Responses.ResponseFunctionToolCall>)
      .filter(({ type }) => type === "function_call")
      .map(({ call_id }) => ({ type: "function_call_output" as const, call_id, output: "Rain" }))
  ]
  const create = (input: OpenAI.Responses.ResponseInput) => responses.create({ model, input, tools })
  const stream = (input: OpenAI.Responses.ResponseInput) => responses.stream({ model, input, tools }).finalResponse()
  const whole = await create(afterTool((await create(asked)).output))
  const streamed = await stream(afterTool((await stream(asked)).output))
  return [whole.output_text, streamed.output_text]
}

const withChat = async ({ apiKey, baseURL, name: model }: Connection): Promise<ReadonlyArray<string>> => {
  const { completions } = new OpenAI({ apiKey, baseURL }).chat
  const request = {
    model,
    messages: [{ role: "user" as const, content: "Hi" }],
    tools: [zodFunction({ name: "weather", parameters: city, function: () => "Rain" })]
  }
  const whole = await completions.runTools(request).finalContent()
  const streamed = await completions.runTools({ ...request, stream: true }).finalContent()
  return [whole ?? "", streamed ?? ""]
}

const withMessages = async ({ apiKey, baseURL, name: model }: Connection): Promise<ReadonlyArray<string>> => {
  const { messages } = new Anthropic({ apiKey, baseURL: baseURL.slice(0, -"/v1".length) })
  const tools = [{ name: "weather", input_schema: weather as Anthropic.Tool.InputSchema }]
  const asked: ReadonlyArray<Anthropic.MessageParam> = [{ role: "user", content: "Hi" }]
  const afterTool = ({ content }: Anthropic.Message): ReadonlyArray<Anthropic.MessageParam> => [
    ...asked,
    { role: "assistant", content },
    {
      role: "user",
      content: content.flatMap((block) =>
        block.type === "tool_use" ? [{ type: "tool_result", tool_use_id: block.id, content: "Rain" }] : []
      )
    }
  ]
  const request = (all: ReadonlyArray<Anthropic.MessageParam>) => ({
    model,
    max_tokens: 100,
    messages: [...all],
    tools
  })
  const create = (all: ReadonlyArray<Anthropic.MessageParam>) => messages.create(request(all))
  const stream = (all: ReadonlyArray<Anthropic.MessageParam>) => messages.stream(request(all)).finalMessage()
  return [await create(afterTool(await create(asked))), await stream(afterTool(await stream(asked)))].map(
    ({ content }) => content.map((block) => (block.type === "text" ? block.text : "")).join("")
  )
}

/** The Agents SDK has the types of another version of the client. */
type AgentsClient = ConstructorParameters<typeof OpenAIResponsesModel>[0]

const withAgents =
  (modelOf: (client: AgentsClient, name: string) => OpenAIResponsesModel | OpenAIChatCompletionsModel) =>
  async ({ apiKey, baseURL, name }: Connection): Promise<ReadonlyArray<string>> => {
    const weather = agentTool({ name: "weather", description: "Weather", parameters: city, execute: () => "Rain" })
    const agent = new Agent({
      name: "Tester",
      instructions: "Be brief.",
      model: modelOf(new OpenAI({ apiKey, baseURL }) as object as AgentsClient, name),
      tools: [weather]
    })
    const runner = new Runner({ tracingDisabled: true })
    const whole = await runner.run(agent, "Hi")
    const streamed = await runner.run(agent, "Hi", { stream: true })
    await streamed.completed
    return [String(whole.finalOutput), String(streamed.finalOutput)]
  }

const withLangChain =
  (modelOf: (connection: Connection) => ChatOpenAI | ChatAnthropic) =>
  async (connection: Connection): Promise<ReadonlyArray<string>> => {
    const chat = modelOf(connection)
    const whole = await chat.invoke("Hi")
    let streamed = ""
    for await (const { text } of await chat.stream("Hi")) streamed += text
    return [whole.text, streamed]
  }

const clients: Readonly<Record<ClientName, (connection: Connection) => Promise<ReadonlyArray<string>>>> = {
  "OpenAI's SDK, by responses": withResponses,
  "OpenAI's SDK, by chat": withChat,
  "Anthropic's SDK": withMessages,
  "the AI SDK, by default": withAiSdk(({ apiKey, baseURL, name }) => createOpenAI({ apiKey, baseURL })(name)),
  "the AI SDK, by chat": withAiSdk(({ apiKey, baseURL, name }) => createOpenAI({ apiKey, baseURL }).chat(name)),
  "the AI SDK, for compatible providers": withAiSdk(({ apiKey, baseURL, name }) =>
    createOpenAICompatible({ name: "gateway", apiKey, baseURL })(name)
  ),
  "the AI SDK, for Anthropic": withAiSdk(({ apiKey, baseURL, name }) => createAnthropic({ apiKey, baseURL })(name)),
  "the Agents SDK, by default": withAgents((client, name) => new OpenAIResponsesModel(client, name)),
  "the Agents SDK, by chat": withAgents((client, name) => new OpenAIChatCompletionsModel(client, name)),
  "LangChain, by chat": withLangChain(
    ({ apiKey, baseURL, name }) => new ChatOpenAI({ model: name, apiKey, maxTokens: 100, configuration: { baseURL } })
  ),
  "LangChain, by responses": withLangChain(
    ({ apiKey, baseURL, name }) =>
      new ChatOpenAI({ model: name, apiKey, maxTokens: 100, useResponsesApi: true, configuration: { baseURL } })
  ),
  "LangChain, for Anthropic": withLangChain(
    ({ apiKey, baseURL, name }) =>
      new ChatAnthropic({ model: name, apiKey, maxTokens: 100, anthropicApiUrl: baseURL.slice(0, -"/v1".length) })
  )
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("clients that people use", (it) => {
  for (const [client, { hasTools }] of Record.toEntries(clientFeatures)) {
    const run = clients[client]
    // Two answers, each with a turn more for the tool.
    const calls = hasTools ? 4 : 2
    for (const [name, behind] of Object.entries(servedBy)) {
      it.effect(`${client}, with ${behind} behind, exactly charged`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const openai = yield* startProvider(openAiVendor)
          const native = yield* startProvider(makeResponsesVendor())
          const anthropic = yield* startProvider(anthropicVendor)
          yield* configure(
            service,
            [
              provider("oa", openai),
              provider("an", anthropic, { dialect: "anthropic", baseUrl: anthropic.url }),
              provider("re", native, { apis: ["responses"] })
            ],
            [model("gpt", ["oa"]), model("claude", ["an"]), model("o-native", ["re"])]
          )
          const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
          const answers = yield* Effect.promise(() => run({ baseURL: `${service.url}/v1`, apiKey: key, name }))
          assert.deepStrictEqual(answers, [said, said])
          const charge = { amount: String(costNanoUsd), state: "settled", method: "provider_usage" }
          assert.deepStrictEqual(
            yield* charges(service, tenantId),
            Array.from({ length: calls }, () => charge)
          )
        }).pipe(Effect.scoped)
      )
    }
  }
})
