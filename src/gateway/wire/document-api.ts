import { type Json, withForeign } from "../../kernel/foreign-format.ts"
import {
  anthropicError,
  callHeaders,
  callStatuses,
  errorsIn,
  header,
  messageList,
  messages,
  modelMember,
  openAiError,
  readStatuses,
  tag,
  vendorObject
} from "./document-domain.ts"

interface Described {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  readonly capability: string
  readonly component: "OpenAiError" | "AnthropicError"
}

const operation = (
  { capability, component, description, operationId, summary }: Described,
  statuses: ReadonlyArray<number>,
  success: Json,
  rest: Json
): Json => ({
  operationId: `compatibility.${operationId}`,
  summary,
  description,
  tags: [tag.name],
  security: [{ apiKey: [] }, { bearer: [] }],
  "x-required-capability": capability,
  "x-foreign-format": true,
  ...rest,
  responses: {
    200: { description: "OK, as the vendor's reference has it", content: success },
    ...errorsIn(component, statuses)
  }
})

const posted = (described: Described, schema: Json, example: Json, streams: boolean): Json => ({
  post: operation(
    described,
    callStatuses,
    {
      "application/json": { schema: vendorObject("As the vendor answers") },
      ...(streams
        ? {
            "text/event-stream": { schema: { type: "string", description: "The vendor's events, where `stream` asks" } }
          }
        : {})
    },
    {
      parameters: callHeaders,
      requestBody: { required: true, content: { "application/json": { schema, example } } }
    }
  )
})

const anyUse = ["llm:complete", "llm:embed", "llm:admin", "llm:write"]

const version = header(
  "anthropic-version",
  "With it the answer is Anthropic's, else OpenAI's",
  { type: "string" },
  "2023-06-01"
)

/** The compatibility endpoints, as paths of the OpenAPI document. */
const paths: Json = {
  "/v1/chat/completions": posted(
    {
      operationId: "chatCompletions",
      summary: "Complete a chat, in OpenAI's words",
      description: "OpenAI's chat completions, by whichever provider has the model; streams where `stream` asks.",
      capability: "llm:complete",
      component: "OpenAiError"
    },
    vendorObject("OpenAI's request", { model: modelMember, messages: messageList, stream: { type: "boolean" } }, [
      "model",
      "messages"
    ]),
    { model: "loopback-1", messages },
    true
  ),
  "/v1/embeddings": posted(
    {
      operationId: "embeddings",
      summary: "Embed texts, in OpenAI's words",
      description: "OpenAI's embeddings, as numbers or in base64 as its SDK asks for them.",
      capability: "llm:embed",
      component: "OpenAiError"
    },
    vendorObject(
      "OpenAI's request",
      {
        model: modelMember,
        input: {
          description: "A text, or up to 2,048 of them",
          anyOf: [{ type: "string" }, { type: "array", minItems: 1, maxItems: 2048 }]
        }
      },
      ["model", "input"]
    ),
    { model: "loopback-1", input: "Hello" },
    false
  ),
  "/v1/messages": posted(
    {
      operationId: "messages",
      summary: "Complete a conversation, in Anthropic's words",
      description: "Anthropic's messages, by whichever provider has the model; streams where `stream` asks.",
      capability: "llm:complete",
      component: "AnthropicError"
    },
    vendorObject(
      "Anthropic's request",
      {
        model: modelMember,
        max_tokens: { type: "integer", minimum: 0, maximum: 2_147_483_647 },
        messages: messageList,
        stream: { type: "boolean" }
      },
      ["model", "max_tokens", "messages"]
    ),
    { model: "loopback-1", max_tokens: 100, messages },
    true
  ),
  "/v1/messages/count_tokens": posted(
    {
      operationId: "countTokens",
      summary: "Count the tokens of a conversation, in Anthropic's words",
      description: "By an Anthropic provider where the model has one, else an estimate. It costs nothing.",
      capability: "llm:complete",
      component: "AnthropicError"
    },
    vendorObject("Anthropic's request", { model: modelMember, messages: messageList }, ["model", "messages"]),
    { model: "loopback-1", messages },
    false
  ),
  "/v1/models": {
    get: operation(
      {
        operationId: "models",
        summary: "List models, in either vendor's words",
        description: "OpenAI's list, or a page of Anthropic's where `anthropic-version` is sent.",
        capability: "llm:read",
        component: "OpenAiError"
      },
      readStatuses,
      { "application/json": { schema: vendorObject("As the vendor answers") } },
      {
        "x-or-capabilities": anyUse,
        parameters: [
          version,
          {
            name: "limit",
            in: "query",
            required: false,
            description: "Of Anthropic's page; 20 unless given",
            schema: { type: "integer", minimum: 1, maximum: 1000 }
          },
          {
            name: "after_id",
            in: "query",
            required: false,
            description: "Of Anthropic's page: what comes after this model",
            schema: { type: "string" }
          },
          {
            name: "before_id",
            in: "query",
            required: false,
            description: "Of Anthropic's page: what comes before this model",
            schema: { type: "string" }
          }
        ]
      }
    )
  },
  "/v1/models/{model}": {
    get: operation(
      {
        operationId: "model",
        summary: "Get a model, in either vendor's words",
        description: "By its id, an alias, or `<provider>/<its own name there>`.",
        capability: "llm:read",
        component: "OpenAiError"
      },
      readStatuses,
      { "application/json": { schema: vendorObject("As the vendor answers") } },
      {
        "x-or-capabilities": anyUse,
        parameters: [
          { name: "model", in: "path", required: true, description: "The model's name", schema: { type: "string" } },
          version
        ]
      }
    )
  }
}

/** The compatibility endpoints, which are the vendors'. */
export const withCompatibility = withForeign({
  tag,
  paths,
  schemas: { OpenAiError: openAiError, AnthropicError: anthropicError }
})
