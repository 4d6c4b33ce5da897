/** JSON of the OpenAPI document. */
type Json = Readonly<Record<string, unknown>>

const tag = {
  name: "Compatibility",
  description:
    "The gateway as the SDKs of OpenAI and Anthropic speak it, errors included. Bodies are the vendors' own: what is not named here reaches a provider of the same dialect untouched."
}

const header = (name: string, description: string, schema: Json, example: string) => ({
  name,
  in: "header",
  required: false,
  description,
  schema,
  example
})

const id = { type: "string", format: "uuid" }
const exampleId = "0198a5b0-7c00-7000-8000-00000000002a"
const callHeaders = [
  header("X-Agent-Id", "The agent that is charged, beside a key", id, exampleId),
  header("X-Plan-Id", "The agent's plan that the call draws on", id, exampleId),
  header("X-Task-Type", "What kind of task it is", { type: "string", maxLength: 200 }, "summarize"),
  header("X-Reservation-Id", "Calls with what was reserved, or approved, before", id, exampleId),
  header(
    "X-Cache",
    "Whether an equal request of the tenant may be answered as before, at no cost",
    { type: "string", enum: ["true", "false"] },
    "true"
  ),
  header(
    "Idempotency-Key",
    "Makes the call once. Nothing of its answer is kept: a repetition is 409 and says what it did cost.",
    { type: "string", pattern: "^[ -~]{1,255}$" },
    "8e03978e-40d5-43dd-bc93-6894a57f9324"
  )
]

const modelMember = {
  type: "string",
  minLength: 1,
  description: "The id or alias of a model of the gateway, or `<provider>/<its own name there>`",
  examples: ["loopback-1"]
}
const messageList = {
  type: "array",
  minItems: 1,
  description: "As the vendor's reference has them",
  items: { type: "object", required: ["role"], properties: { role: { type: "string", examples: ["user"] } } }
}
const messages = [{ role: "user", content: "Hello" }]

const vendorObject = (description: string, properties: Json = {}, required: ReadonlyArray<string> = []): Json => ({
  type: "object",
  description,
  properties,
  ...(required.length === 0 ? {} : { required })
})

const openAiError = {
  type: "object",
  description: "An error as OpenAI's clients read it",
  required: ["error"],
  properties: {
    error: {
      type: "object",
      required: ["message", "type", "param", "code"],
      properties: {
        message: { type: "string", examples: ["The model `nothing` does not exist."] },
        type: { type: "string", examples: ["invalid_request_error"] },
        param: { type: ["string", "null"], examples: ["model"] },
        code: { type: ["string", "null"], examples: ["model_not_found"] }
      }
    }
  }
}

const anthropicError = {
  type: "object",
  description: "An error as Anthropic's clients read it",
  required: ["type", "error", "request_id"],
  properties: {
    type: { type: "string", enum: ["error"] },
    error: {
      type: "object",
      required: ["type", "message"],
      properties: {
        type: { type: "string", examples: ["not_found_error"] },
        message: { type: "string", examples: ["The model `nothing` does not exist."] }
      }
    },
    request_id: { type: "string", examples: ["mCy6ymLWY9Tt-0"] }
  }
}

const reasons: Readonly<Record<string, string>> = {
  400: "The body cannot be read, a member is at fault and named, or another dialect has no words for it",
  401: "No valid credential",
  402: "A budget cap leaves no room, or somebody has to approve it; SDKs are told not to try again",
  403: "The caller lacks the capability, or the model has no price and a cap in money applies",
  404: "No such model, agent, plan or reservation",
  409: "The Idempotency-Key was used: the call is under way, or was made",
  413: "The body is larger than Llm:Gateway:MaxBodyBytes",
  422: "The Idempotency-Key was used with another body",
  429: "Asked too often; Retry-After says when to try again",
  500: "Something went wrong here",
  502: "The provider cannot be reached, or gave no usable answer",
  503: "The ledger or the provider takes no more; to Anthropic's clients 529",
  504: "The provider did not answer in time"
}

const errorsIn = (component: string, statuses: ReadonlyArray<number>): Json =>
  Object.fromEntries(
    statuses.map((status) => [
      String(status),
      {
        description: reasons[status],
        content: { "application/json": { schema: { $ref: `#/components/schemas/${component}` } } }
      }
    ])
  )

const callStatuses = [400, 401, 402, 403, 404, 409, 413, 422, 429, 500, 502, 503, 504]
const readStatuses = [400, 401, 403, 404, 429, 500]

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
      { model: modelMember, input: { description: "A text, or up to 2,048 of them", type: ["string", "array"] } },
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
        max_tokens: { type: "integer", minimum: 1, maximum: 2_147_483_647 },
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

/** Adds the compatibility endpoints to the document: they are the vendors', and served beside the groups of this one. */
export const withCompatibility = (document: Record<string, unknown>): Record<string, unknown> => {
  const {
    components,
    paths: own,
    tags
  } = document as {
    readonly components: { readonly schemas: Json }
    readonly paths: Json
    readonly tags: ReadonlyArray<Json>
  }
  return {
    ...document,
    tags: [...tags, tag],
    paths: { ...own, ...paths },
    components: {
      ...components,
      schemas: { ...components.schemas, OpenAiError: openAiError, AnthropicError: anthropicError }
    }
  }
}
