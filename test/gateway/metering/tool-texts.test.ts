import { assert, it } from "@effect/vitest"
import { countChatCompletionTokens, countTokens } from "gpt-tokenizer/model/gpt-4o"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { textsOf } from "../../../src/gateway/metering/request-texts.ts"
import { boundOf } from "../../support/formats.ts"

const text = (description: string) => ({ type: "string", description })
const object = (properties: object, required: ReadonlyArray<string>) => ({ type: "object", properties, required })

/** Tools as agents define them. */
const toolSets: Readonly<Record<string, ReadonlyArray<object>>> = {
  "without parameters": [{ name: "now", description: "The time", parameters: object({}, []) }],
  "with a choice": [
    {
      name: "get_weather",
      description: "Get the current weather in a location",
      parameters: object(
        { location: text("City and state"), unit: { type: "string", enum: ["celsius", "fahrenheit"] } },
        ["location", "unit"]
      )
    }
  ],
  "with a long description": [
    {
      name: "bash",
      description:
        "Executes a command in a shell, and returns what it prints, at most 30,000 characters of it. ".repeat(20),
      parameters: object({ command: text("The command to execute"), timeout: { type: "number" } }, ["command"])
    }
  ],
  nested: [
    {
      name: "create_order",
      description: "Creates an order",
      parameters: object(
        {
          customer: object({ name: { type: "string" }, address: object({ city: { type: "string" } }, ["city"]) }, [
            "name"
          ]),
          items: {
            type: "array",
            items: object({ sku: text("The article"), quantity: { type: "integer" } }, ["sku", "quantity"])
          }
        },
        ["customer", "items"]
      )
    }
  ],
  many: Array.from({ length: 20 }, (_, index) => ({
    name: `tool_${index}`,
    description: `Does thing number ${index}`,
    parameters: object({ id: { type: "integer" }, name: { type: "string" }, flag: { type: "boolean" } }, ["id"])
  })),
  "in another language": [
    {
      name: "get_weather",
      description: "获取指定城市的当前天气，包括温度、湿度和风速。",
      parameters: object({ city: text("城市名称") }, [])
    }
  ]
}

it.for(Object.entries(toolSets))("counts tools %s about as OpenAI's models read them", ([, functions]) => {
  const asked = { messages: [{ role: "user" as const, content: "Hi" }] }
  const without = countChatCompletionTokens?.(asked) ?? 0
  const read = (countChatCompletionTokens?.({ ...asked, functions: functions as never }) ?? 0) - without
  const tools = functions.map((tool) => ({ type: "function", function: tool }))
  const estimated = textsOf({ tools }).texts.reduce((sum, words) => sum + countTokens(words), 0)
  assert.isAtLeast(estimated, read * 0.95)
  assert.isAtMost(estimated, read * 1.5)
  // Admission adds what a vendor adds for each tool.
  const body = { messages: [], tools }
  const bytes = Buffer.byteLength(JSON.stringify(body))
  assert.isAtLeast(boundOf(openAiChat, body, bytes).inputTokens - textsOf(body).bytes + estimated, read)
})
