import { type Json } from "../../kernel/json/parsed-json.ts"

export const tag = {
  name: "Compatibility",
  description:
    "The gateway in the formats of the SDKs of OpenAI, Anthropic and Google, errors included. Bodies are the vendors' own: members that are not listed here pass unchanged to a provider of the same dialect. What is below `/v1beta` is served below `/v1`, too."
}

export const header = (name: string, description: string, schema: Json, example: string) => ({
  name,
  in: "header",
  required: false,
  description,
  schema,
  example
})

const id = { type: "string", format: "uuid" }
const exampleId = "0198a5b0-7c00-7000-8000-00000000002a"
export const callHeaders = [
  header("X-Agent-Id", "The agent that is charged, beside a key", id, exampleId),
  header("X-Plan-Id", "The agent's plan that the call draws on", id, exampleId),
  header("X-Task-Type", "What kind of task it is", { type: "string", maxLength: 200 }, "summarize"),
  header("X-Reservation-Id", "Uses an earlier reservation or approval", id, exampleId),
  header(
    "X-Cache",
    "Whether the response to an equal request of the tenant may be reused, at no cost",
    { type: "string", enum: ["true", "false"] },
    "true"
  ),
  header(
    "Idempotency-Key",
    "Makes the call once. The response is not stored: a repetition is 409 and states what the call cost.",
    { type: "string", pattern: "^[ -~]{1,255}$" },
    "8e03978e-40d5-43dd-bc93-6894a57f9324"
  )
]

const usd = { type: "string", pattern: "^-?\\d+(?:\\.\\d{1,9})?$" }
/** The headers of a response that is charged. */
export const answerHeaders = {
  "X-Reservation-Id": { description: "The reservation of the call; absent if the response cache answered", schema: id },
  "X-Cost-Usd": { description: "The cost; absent in a stream that starts before it is known", schema: usd },
  "X-Budget-Remaining-Usd": { description: "What the caps in money leave; absent if there are none", schema: usd },
  "X-Cache": {
    description: "Whether the response cache answered, if it was asked",
    schema: { type: "string", enum: ["hit", "miss"] }
  }
}

export const modelId = {
  type: "string",
  minLength: 1,
  description: "The id or alias of a model of the gateway, or `<provider>/<the provider's name for it>`",
  examples: ["loopback-1"]
}
export const modelMember = { $ref: "#/components/schemas/ModelId" }

/** An object with these members, and others that it may have. */
export const object = (required: Json, optional: Json = {}, rest: Json = {}): Json => ({
  type: "object",
  ...rest,
  properties: { ...required, ...optional },
  ...(Object.keys(required).length > 0 && { required: Object.keys(required) })
})

const open = { additionalProperties: true }
const text = (example: string) => ({ type: "string", examples: [example] })
const message = text("The model `nothing` does not exist.")

export const anyObject = { type: "object", ...open }

export const vendorObject = (description: string, required: Json = {}, optional: Json = {}): Json =>
  object(required, optional, { description, ...open })

export const messageList = {
  type: "array",
  minItems: 1,
  description: "As in the vendor's reference",
  items: object({ role: text("user") }, {}, open)
}
export const messages = [{ role: "user", content: "Hello" }]

const errorOf = (vendor: string, members: Json): Json =>
  object(members, {}, { description: `An error in ${vendor}'s format` })

/** The error of each format. */
export const errors = {
  OpenAiError: errorOf("OpenAI", {
    error: object({
      message,
      type: text("invalid_request_error"),
      param: { type: ["string", "null"], examples: ["model"] },
      code: { type: ["string", "null"], examples: ["model_not_found"] }
    })
  }),
  AnthropicError: errorOf("Anthropic", {
    type: { type: "string", enum: ["error"] },
    error: object({ type: text("not_found_error"), message }),
    request_id: text("mCy6ymLWY9Tt-0")
  }),
  GeminiError: errorOf("Google", {
    error: object({
      code: { type: "integer", minimum: 400, maximum: 599, examples: [404] },
      message,
      status: text("NOT_FOUND"),
      details: {
        type: "array",
        description: "`ErrorInfo` with the reason, `BadRequest` with the member, `RetryInfo`, `RequestInfo`",
        items: object({ "@type": text("type.googleapis.com/google.rpc.ErrorInfo") }, {}, open)
      }
    })
  })
}

const reasons: Readonly<Record<string, string>> = {
  400: "The body cannot be read, a member is invalid, or the provider's dialect cannot express the request",
  401: "No valid credential",
  402: "A budget cap has no room, or the call needs an approval; SDKs do not retry",
  403: "The caller lacks the capability, or the model has no price and a cap in money applies",
  404: "No such model, agent, plan or reservation",
  409: "The Idempotency-Key was used: the call is in progress or completed",
  412: "If-Match names a tag, which nothing here has",
  413: "The body is larger than Llm:Gateway:MaxBodyBytes, or a form than Llm:Gateway:MaxUploadBytes",
  415: "The body has a Content-Encoding, which is not decoded, or is no form where files are sent",
  422: "The Idempotency-Key was used with another body",
  429: "Too many requests; Retry-After says when to retry, and the vendor's rate-limit headers how many are left",
  500: "The service failed",
  502: "The provider cannot be reached, or sent no usable response",
  503: "The ledger or the provider is overloaded; 529 for Anthropic's clients",
  504: "The provider did not respond in time"
}

export const errorsIn = (component: keyof typeof errors, statuses: ReadonlyArray<number>): Json =>
  Object.fromEntries(
    statuses.map((status) => [
      String(status),
      {
        description: reasons[status],
        content: { "application/json": { schema: { $ref: `#/components/schemas/${component}` } } }
      }
    ])
  )

export const callStatuses = [400, 401, 402, 403, 404, 409, 412, 413, 415, 422, 429, 500, 502, 503, 504]
/** Where Google's clients send their key. */
export const googleKeys = {
  googleApiKey: { type: "apiKey", in: "header", name: "x-goog-api-key" },
  googleApiKeyInQuery: { type: "apiKey", in: "query", name: "key", description: "For paths of models alone" }
}

export const readStatuses = [400, 401, 403, 404, 412, 429, 500]
/** Of what a provider may store. */
export const storedStatuses = [...readStatuses, 502, 503, 504]
