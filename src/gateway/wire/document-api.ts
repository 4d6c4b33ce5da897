import { withForeign } from "../../kernel/http/foreign-format.ts"
import { type Json } from "../../kernel/json/parsed-json.ts"
import {
  answerHeaders,
  anyObject,
  callHeaders,
  callStatuses,
  errors,
  errorsIn,
  googleKeys,
  header,
  messageList,
  messages,
  modelId,
  modelMember,
  object,
  readStatuses,
  storedStatuses,
  tag,
  vendorObject
} from "./document-domain.ts"

interface Described {
  readonly operationId: string
  readonly summary: string
  readonly description: string
  /** `llm:complete` if absent. */
  readonly capability?: string
  /** The format of its errors; OpenAI's if absent. */
  readonly component?: keyof typeof errors
  readonly parameters?: ReadonlyArray<Json>
}

const ownSecurity = [{ apiKey: [] }, { bearer: [] }]
const googleSecurity = Object.keys(googleKeys).map((name) => ({ [name]: [] }))

const operation = (
  { capability = "llm:complete", component = "OpenAiError", operationId, ...texts }: Described,
  statuses: ReadonlyArray<number>,
  success: Json,
  { headers, ...rest }: { readonly headers?: Json; readonly [member: string]: unknown } = {}
): Json => ({
  operationId: `compatibility.${operationId}`,
  tags: [tag.name],
  security: component === "GeminiError" ? [...googleSecurity, ...ownSecurity] : ownSecurity,
  "x-required-capability": capability,
  "x-foreign-format": true,
  ...texts,
  ...rest,
  responses: {
    200: { description: "OK, as in the vendor's reference", ...(headers && { headers }), content: success },
    ...errorsIn(component, statuses)
  }
})

/**
 * What a caller gets: a response that may be streamed, as events or as events or an array, or comes whole, or is audio, each charged, or
 * a count, which is not.
 */
type Answer = "streamed" | "framed" | "whole" | "audio" | "count"

const anyResponse = vendorObject("The vendor's response")

const events = { "text/event-stream": { schema: { type: "string", description: "The vendor's events, if asked for" } } }

const answerContent = (answer: Answer): Json => ({
  ...(answer === "audio" && { "audio/*": { schema: { type: "string", format: "binary" } }, ...events }),
  ...(answer !== "audio" && wholeContent(answer)),
  ...((answer === "streamed" || answer === "framed") && events)
})

const wholeContent = (answer: Answer): Json => ({
  "application/json": { schema: answer === "framed" ? { type: "array", items: anyResponse } : anyResponse }
})

interface Posted extends Described {
  readonly schema: Json
  readonly example: Json
  readonly answer: Answer
  /** The media type of the body; JSON if absent. */
  readonly mediaType?: string
}

const posted = ({
  answer,
  example,
  mediaType = "application/json",
  parameters = [],
  schema,
  ...described
}: Posted): Json => ({
  post: operation({ ...described, parameters: [...parameters, ...callHeaders] }, callStatuses, answerContent(answer), {
    ...(answer !== "count" && { headers: answerHeaders }),
    requestBody: { required: true, content: { [mediaType]: { schema, example } } }
  })
})

/** A request with files, which an example has as texts. */
const uploaded = ({ answer, example, parameters = [], schema, ...described }: Posted): Json => ({
  post: operation({ ...described, parameters: [...parameters, ...callHeaders] }, callStatuses, answerContent(answer), {
    headers: answerHeaders,
    requestBody: { required: true, content: { "multipart/form-data": { schema, example } } }
  })
})

const file = { type: "string", contentMediaType: "application/octet-stream" }
const transcription = vendorObject(
  "OpenAI's request",
  { model: modelMember, file: { ...file, description: "The audio" } },
  {
    response_format: {
      type: "string",
      description: "As in the vendor's reference; text, srt and vtt are written by the gateway"
    }
  }
)

const input = {
  description: "A text, or a list of items",
  anyOf: [{ type: "string" }, { type: "array", items: anyObject }]
}
const responseRequest = vendorObject("OpenAI's request", { model: modelMember }, { input })
const hello = { model: "loopback-1", input: "Hello" }
const stream = { type: "boolean" }
const token = { type: "integer", minimum: 0 }
/** A text, or a list of texts, of tokens, or of lists of tokens. */
const textOrList = (description: string, bounds: Json): Json => ({
  description,
  anyOf: [
    { type: "string" },
    {
      type: "array",
      minItems: 1,
      ...bounds,
      items: { anyOf: [{ type: "string" }, token, { type: "array", items: token }] }
    }
  ]
})

const queried = (name: string, description: string, schema: Json): Json => ({
  name,
  in: "query",
  required: false,
  description,
  schema
})

const inPath = (name: string, description: string): Json => ({
  name,
  in: "path",
  required: true,
  description,
  schema: { type: "string" }
})

/** An operation on a response that the gateway or its provider stores. */
const stored = ({ parameters = [], ...described }: Described): Json =>
  operation(
    { ...described, parameters: [inPath("id", "The id of a response"), ...parameters] },
    storedStatuses,
    answerContent("whole")
  )

const modelName = inPath("model", "The model's name")
const contents = {
  type: "array",
  minItems: 1,
  description: "As in the vendor's reference",
  items: anyObject
}
const content = { parts: [{ text: "Hello" }] }
const generateRequest = vendorObject("Google's request", { contents })
const countRequest = vendorObject(
  "Google's request, with either of these",
  {},
  { contents, generateContentRequest: generateRequest }
)
const embedRequest = vendorObject("Google's request", { content: anyObject })

/** An operation on a model in Google's format; the method follows the model in the path. */
const ofGemini = (method: string, { parameters = [], ...described }: Omit<Posted, "operationId">): Json => ({
  [`/v1beta/models/{model}:${method}`]: posted({
    ...described,
    operationId: `gemini${method[0]?.toUpperCase()}${method.slice(1)}`,
    component: "GeminiError",
    parameters: [modelName, ...parameters]
  })
})

/** An operation on a file or a batch. */
const kept = (thing: string, { parameters = [], ...described }: Described, content = answerContent("whole")): Json =>
  operation(
    { ...described, parameters: [inPath("id", `The id of a ${thing}`), ...parameters] },
    storedStatuses,
    content,
    {
      "x-or-capabilities": ["llm:embed"]
    }
  )

/** A list of what the caller has at providers. */
const keptList = (described: Described): Json =>
  operation(described, readStatuses, answerContent("whole"), { "x-or-capabilities": ["llm:embed"] })

const jsonLines: Json = {
  "application/octet-stream": { schema: { type: "string", format: "binary", description: "Lines of JSON" } }
}

const anyBytes: Json = {
  "application/octet-stream": { schema: { type: "string", format: "binary" } }
}

const openAiPage = [
  queried("limit", "The page size; 20 by default", { type: "integer", minimum: 1, maximum: 100 }),
  queried("after", "Those after this one", { type: "string" })
]

const anyUse = ["llm:complete", "llm:embed", "llm:admin", "llm:write"]

/** What shows models. */
const shown = (described: Described): Json => ({
  get: operation({ capability: "llm:read", ...described }, readStatuses, answerContent("whole"), {
    "x-or-capabilities": anyUse
  })
})

const version = header(
  "anthropic-version",
  "Selects Anthropic's format; without it the response is OpenAI's",
  { type: "string" },
  "2023-06-01"
)

const keeper = header(
  "X-Model",
  "A model that the file is meant for, by any of its names: its first provider that keeps files gets it. The vendor's own provider that is configured first unless given",
  { type: "string" },
  "gpt-5-mini"
)

const reranked = (operationId: string, format: string, as: string) => ({
  operationId,
  summary: `Rank documents by a query in ${format}`,
  description: `${as}: the documents in the order of their relevance to the query.`,
  capability: "llm:embed",
  schema: vendorObject(
    "The request",
    {
      model: modelMember,
      query: { type: "string", description: "What the documents are compared with" },
      documents: {
        description: "The texts",
        type: "array",
        minItems: 1,
        maxItems: 10_000,
        items: { anyOf: [{ type: "string" }, { type: "object" }] }
      }
    },
    { top_n: { type: "integer", minimum: 1, description: "How many results; all unless given" } }
  ),
  example: { model: "loopback-1", query: "Where is Paris?", documents: ["Paris is in France.", "Rome is in Italy."] },
  answer: "whole" as const
})

/** The compatibility endpoints, as paths of the OpenAPI document. */
const paths: Json = {
  "/v1/chat/completions": posted({
    operationId: "chatCompletions",
    summary: "Complete a chat in OpenAI's format",
    description: "OpenAI's chat completions, served by any provider of the model. Streams if `stream` is true.",
    schema: vendorObject("OpenAI's request", { model: modelMember, messages: messageList }, { stream }),
    example: { model: "loopback-1", messages },
    answer: "streamed"
  }),
  "/v1/completions": posted({
    operationId: "completions",
    summary: "Complete a text in OpenAI's format",
    description:
      "OpenAI's text completions, by a provider that has them; other models are 400. Streams if `stream` is true.",
    schema: vendorObject(
      "OpenAI's request",
      { model: modelMember, prompt: textOrList("A text, its tokens, or up to 2,048 of either", {}) },
      { stream }
    ),
    example: { model: "loopback-1", prompt: "Hello" },
    answer: "streamed"
  }),
  "/v1/responses": posted({
    operationId: "responses",
    summary: "Create a response in OpenAI's format",
    description:
      'OpenAI\'s Responses API, served by any provider of the model. Streams if `stream` is true. Tools that the provider of the model does not run are left out, and listed in the header `x-omitted-tools`; items that mean nothing to it, in `x-omitted-items`. A GET with `Upgrade: websocket` opens a WebSocket, on which each text with `"type": "response.create"` is such a request; one at `/v1/realtime?model=…` speaks OpenAI\'s Realtime API.',
    schema: vendorObject(
      "OpenAI's request",
      { model: modelMember },
      {
        input,
        previous_response_id: { type: ["string", "null"], description: "The response that this one continues" },
        store: { type: ["boolean", "null"], description: "Whether to store the response, which is the default" },
        stream: { type: ["boolean", "null"] }
      }
    ),
    example: hello,
    answer: "streamed"
  }),
  "/v1/responses/input_tokens": posted({
    operationId: "responseInputTokens",
    summary: "Count the tokens of a response's request in OpenAI's format",
    description:
      "Counted by the provider if it counts, else by the model's tokenizer if that is known, otherwise estimated. It costs nothing.",
    schema: responseRequest,
    example: hello,
    answer: "count"
  }),
  "/v1/responses/compact": posted({
    operationId: "compactResponse",
    summary: "Shorten a conversation in OpenAI's format",
    description: "By a provider that speaks the Responses API; other models are 400.",
    schema: responseRequest,
    example: hello,
    answer: "whole"
  }),
  "/v1/responses/{id}": {
    get: stored({
      operationId: "response",
      summary: "Get a stored response",
      description: "As OpenAI's API returns it."
    }),
    delete: stored({
      operationId: "deleteResponse",
      summary: "Delete a stored response",
      description: "The conversation that led to it stays stored."
    })
  },
  "/v1/responses/{id}/input_items": {
    get: stored({
      operationId: "responseInputItems",
      summary: "List the items that a stored response answers",
      description: "A page, the newest first.",
      parameters: [
        queried("limit", "The page size; 20 by default", { type: "integer", minimum: 1, maximum: 100 }),
        queried("order", "The order; the newest first by default", { type: "string", enum: ["asc", "desc"] }),
        queried("after", "The items after this one", { type: "string" })
      ]
    })
  },
  "/v1/responses/{id}/cancel": {
    post: stored({
      operationId: "cancelResponse",
      summary: "Cancel a response",
      description:
        "Responses are made while the caller waits, so that there is none to cancel: 400, unless its provider knows better."
    })
  },
  "/v1/embeddings": posted({
    operationId: "embeddings",
    summary: "Embed texts in OpenAI's format",
    description: "OpenAI's embeddings, as numbers or in base64 as its SDK asks for them.",
    capability: "llm:embed",
    schema: vendorObject("OpenAI's request", {
      model: modelMember,
      input: textOrList("A text, or up to 2,048 of them", { maxItems: 2048 })
    }),
    example: hello,
    answer: "whole"
  }),
  "/v1/rerank": posted(reranked("rerank", "Jina's format", "As Jina, Voyage and Cohere's first version have it")),
  "/v2/rerank": posted(reranked("rerankV2", "Cohere's format", "As Cohere's second version has it")),
  "/v1/audio/speech": posted({
    operationId: "speech",
    summary: "Speak a text in OpenAI's format",
    description:
      "OpenAI's speech, as bytes of audio that arrive as they are made, or as events if `stream_format` is `sse`. A failure after the first bytes breaks the connection.",
    schema: vendorObject(
      "OpenAI's request",
      {
        model: modelMember,
        input: { type: "string", minLength: 1, description: "The text" },
        voice: { description: "The voice", anyOf: [{ type: "string" }, { type: "object" }] }
      },
      {
        response_format: { type: "string", description: "`mp3` unless given" },
        stream_format: { enum: ["sse", "audio"] }
      }
    ),
    example: { ...hello, voice: "alloy" },
    answer: "audio"
  }),
  "/v1/moderations": posted({
    operationId: "moderations",
    summary: "Classify texts and images in OpenAI's format",
    description: "OpenAI's moderations: whether a text or an image is harmful, and in what way.",
    capability: "llm:embed",
    schema: vendorObject(
      "OpenAI's request",
      {
        input: {
          description: "A text, or a list of texts and images",
          anyOf: [
            { type: "string" },
            { type: "array", minItems: 1, items: { anyOf: [{ type: "string" }, { type: "object" }] } }
          ]
        }
      },
      { model: { type: "string", description: "`omni-moderation-latest` unless given" } }
    ),
    example: hello,
    answer: "whole"
  }),
  "/v1/images/generations": posted({
    operationId: "imageGenerations",
    summary: "Make images in OpenAI's format",
    description:
      "OpenAI's generation of images. Streams partial images if `stream` is true. Under a hard cap, for models whose catalogue entry says what an image costs at most.",
    schema: vendorObject(
      "OpenAI's request",
      { model: modelMember, prompt: { type: "string" } },
      { n: { type: "integer", minimum: 1, maximum: 100 }, stream }
    ),
    example: { model: "loopback-1", prompt: "A lighthouse at night" },
    answer: "streamed"
  }),
  "/v1/images/edits": uploaded({
    operationId: "imageEdits",
    summary: "Edit images in OpenAI's format",
    description:
      "OpenAI's edits of images, as a form with up to 100 images, `image` or `image[]`. Streams if `stream` is true.",
    schema: vendorObject(
      "OpenAI's request",
      { model: modelMember, prompt: { type: "string" } },
      { image: file, "image[]": { type: "array", items: file }, mask: file, n: { type: "integer", minimum: 1 }, stream }
    ),
    example: { model: "loopback-1", prompt: "A hat", image: "an image" },
    answer: "streamed"
  }),
  "/v1/audio/transcriptions": uploaded({
    operationId: "transcriptions",
    summary: "Transcribe audio in OpenAI's format",
    description:
      "OpenAI's transcriptions, as a form with a file. Streams if `stream` is true. Under a hard cap the bytes of the file bound its length, by the lowest rate of its codec.",
    schema: transcription,
    example: { model: "loopback-1", file: "audio" },
    answer: "streamed"
  }),
  "/v1/audio/translations": uploaded({
    operationId: "translations",
    summary: "Translate audio into English in OpenAI's format",
    description: "OpenAI's translations, as a form with a file.",
    schema: transcription,
    example: { model: "loopback-1", file: "audio" },
    answer: "streamed"
  }),
  "/v1/messages": posted({
    operationId: "messages",
    summary: "Complete a conversation in Anthropic's format",
    description:
      "Anthropic's messages, served by any provider of the model. Streams if `stream` is true. Betas that have no bound are left out under a hard cap, and listed in the header `x-omitted-betas`. What the provider of the model has no form for is listed in `x-omitted-items` (parts of the conversation) and `x-omitted-members`.",
    component: "AnthropicError",
    schema: vendorObject(
      "Anthropic's request",
      {
        model: modelMember,
        max_tokens: { type: "integer", minimum: 0, maximum: 2_147_483_647 },
        messages: messageList
      },
      { stream }
    ),
    example: { model: "loopback-1", max_tokens: 100, messages },
    answer: "streamed"
  }),
  "/v1/messages/count_tokens": posted({
    operationId: "countTokens",
    summary: "Count the tokens of a conversation in Anthropic's format",
    description: "Counted by an Anthropic provider if the model has one, otherwise estimated. It costs nothing.",
    component: "AnthropicError",
    schema: vendorObject("Anthropic's request", { model: modelMember, messages: messageList }),
    example: { model: "loopback-1", messages },
    answer: "count"
  }),
  "/v1/files": {
    ...posted({
      operationId: "uploadFile",
      summary: "Upload a file in OpenAI's or Anthropic's format",
      description:
        "A file that later requests name by its id, kept by a provider, which gets it as it arrives; Anthropic's if `anthropic-version` is sent, whose form has no purpose. Of purpose `batch`, OpenAI's has a request in each line: each is checked and bounded as a call by itself would be, and an error names the line. Nothing of the content is stored here.",
      schema: vendorObject(
        "The vendor's form",
        {
          file: {
            type: "string",
            format: "binary",
            description:
              "At most Llm:Gateway:MaxUploadBytes; requests of a batch, at most 50,000 lines and Llm:Gateway:MaxBatchBytes"
          }
        },
        {
          purpose: {
            type: "string",
            description: "OpenAI's: such as `user_data`, or `batch`; not `fine-tune`",
            examples: ["user_data"]
          }
        }
      ),
      example: { purpose: "user_data", file: "Text" },
      mediaType: "multipart/form-data",
      answer: "count",
      parameters: [version, keeper]
    }),
    get: keptList({
      operationId: "files",
      summary: "List files in OpenAI's or Anthropic's format",
      description:
        "Those that were uploaded here, the newest first; a page of Anthropic's if `anthropic-version` is sent, and of its beta with `files-api-2025-04-14` in `anthropic-beta`.",
      parameters: [
        version,
        queried("limit", "The page size; 20 by default", { type: "integer", minimum: 1, maximum: 1000 }),
        queried("after", "OpenAI's paging: those after this one", { type: "string" }),
        queried("order", "OpenAI's: the oldest first with `asc`", { type: "string", enum: ["asc", "desc"] }),
        queried("purpose", "OpenAI's: those of this purpose", { type: "string" }),
        queried("page", "Anthropic's paging: `next_page` of the page before", { type: "string" }),
        queried("ids", "Anthropic's: those with these ids, up to 100", { type: "array", items: { type: "string" } }),
        queried("after_id", "Paging of Anthropic's beta: those after this one", { type: "string" }),
        queried("before_id", "Paging of Anthropic's beta: those before this one", { type: "string" })
      ]
    })
  },
  "/v1/files/{id}": {
    get: kept("file", {
      operationId: "file",
      summary: "Get a file in OpenAI's or Anthropic's format",
      description: "As its provider describes it.",
      parameters: [version]
    }),
    delete: kept("file", {
      operationId: "deleteFile",
      summary: "Delete a file in OpenAI's or Anthropic's format",
      description: "At its provider; a batch that runs has its requests already.",
      parameters: [version]
    })
  },
  "/v1/files/{id}/content": {
    get: kept(
      "file",
      {
        operationId: "fileContent",
        summary: "Get the content of a file in OpenAI's or Anthropic's format",
        description:
          "As the provider sends it, such as the results of a batch; Anthropic sends that of files of answers alone.",
        parameters: [version]
      },
      anyBytes
    )
  },
  "/v1/batches": {
    ...posted({
      operationId: "createBatch",
      summary: "Create a batch in OpenAI's format",
      description:
        "What its requests may cost at the price of batches is held on every cap that applies until it has ended, for 30 hours at most, and is then charged by its results.",
      schema: vendorObject(
        "OpenAI's request",
        {
          input_file_id: { type: "string", description: "A file that was uploaded here for a batch" },
          endpoint: { type: "string", description: "The path that its requests name" },
          completion_window: { type: "string", enum: ["24h"] }
        },
        { metadata: { type: ["object", "null"], maxProperties: 15 } }
      ),
      example: { input_file_id: "file-1", endpoint: "/v1/chat/completions", completion_window: "24h" },
      answer: "whole"
    }),
    get: keptList({
      operationId: "batches",
      summary: "List batches in OpenAI's format",
      description: "The newest first, as their providers described them last.",
      parameters: openAiPage
    })
  },
  "/v1/batches/{id}": {
    get: kept("batch", {
      operationId: "batch",
      summary: "Get a batch in OpenAI's format",
      description: "As its provider describes it now."
    })
  },
  "/v1/batches/{id}/cancel": {
    post: kept("batch", {
      operationId: "cancelBatch",
      summary: "Cancel a batch in OpenAI's format",
      description: "What it holds stays held until it has ended; requests that were completed before are charged."
    })
  },
  "/v1/messages/batches": {
    ...posted({
      operationId: "createMessageBatch",
      summary: "Create a batch in Anthropic's format",
      description:
        "The body has its requests; each is checked and bounded as a call by itself would be, and held and charged as those of OpenAI's batches are.",
      component: "AnthropicError",
      schema: vendorObject("Anthropic's request", {
        requests: {
          type: "array",
          minItems: 1,
          maxItems: 100_000,
          items: object({ custom_id: { type: "string", pattern: "^[a-zA-Z0-9_-]{1,64}$" }, params: anyObject })
        }
      }),
      example: {
        requests: [{ custom_id: "a", params: { model: "loopback-1", max_tokens: 100, messages } }]
      },
      answer: "whole"
    }),
    get: keptList({
      operationId: "messageBatches",
      summary: "List batches in Anthropic's format",
      description: "The newest first, as their providers described them last.",
      component: "AnthropicError",
      parameters: [
        queried("limit", "The page size; 20 by default", { type: "integer", minimum: 1, maximum: 1000 }),
        queried("after_id", "Those after this one", { type: "string" }),
        queried("before_id", "Those before this one", { type: "string" })
      ]
    })
  },
  "/v1/messages/batches/{id}": {
    get: kept("batch", {
      operationId: "messageBatch",
      summary: "Get a batch in Anthropic's format",
      description: "As its provider describes it now; `results_url` is here.",
      component: "AnthropicError"
    }),
    delete: kept("batch", {
      operationId: "deleteMessageBatch",
      summary: "Delete a batch in Anthropic's format",
      description:
        "Here and at its provider, once it has ended and is charged; before it is charged, 529 asks to try again.",
      component: "AnthropicError"
    })
  },
  "/v1/messages/batches/{id}/cancel": {
    post: kept("batch", {
      operationId: "cancelMessageBatch",
      summary: "Cancel a batch in Anthropic's format",
      description: "What it holds stays held until it has ended; requests that were completed before are charged.",
      component: "AnthropicError"
    })
  },
  "/v1/messages/batches/{id}/results": {
    get: kept(
      "batch",
      {
        operationId: "messageBatchResults",
        summary: "Get the results of a batch in Anthropic's format",
        description: "Lines of JSON, as the provider sends them.",
        component: "AnthropicError"
      },
      jsonLines
    )
  },
  "/v1/models": shown({
    operationId: "models",
    summary: "List models in any vendor's format",
    description:
      "OpenAI's list, or a page of Anthropic's if `anthropic-version` is sent, or of Google's if the key is sent as its clients send it, then with the parameters of `/v1beta/models`.",
    parameters: [
      version,
      queried("limit", "Anthropic's page size; 20 by default", { type: "integer", minimum: 1, maximum: 1000 }),
      queried("after_id", "Anthropic's paging: the models after this one", { type: "string" }),
      queried("before_id", "Anthropic's paging: the models before this one", { type: "string" })
    ]
  }),
  "/v1/models/{model}": shown({
    operationId: "model",
    summary: "Get a model in any vendor's format",
    description:
      "By its id, an alias, or `<provider>/<the provider's name for it>`; in the format that `/v1/models` has.",
    parameters: [modelName, version]
  }),
  ...ofGemini("generateContent", {
    summary: "Generate content in Google's format",
    description:
      "Google's Gemini API, served by any provider of the model. Its method follows the last colon of the path.",
    schema: generateRequest,
    example: { contents: [content] },
    answer: "whole"
  }),
  ...ofGemini("streamGenerateContent", {
    summary: "Generate content in Google's format, as a stream",
    description:
      "Events with `alt=sse`, in which an error is JSON without `data:`; otherwise one JSON array, whose last element may be an error.",
    schema: generateRequest,
    example: { contents: [content] },
    answer: "framed",
    parameters: [queried("alt", "The framing; an array by default", { type: "string", enum: ["sse", "json"] })]
  }),
  ...ofGemini("countTokens", {
    summary: "Count the tokens of a request in Google's format",
    description:
      "Of `contents`, or of a whole `generateContentRequest`; by a provider with Gemini's API if the model has one, otherwise estimated. It costs nothing.",
    schema: countRequest,
    example: { contents: [content] },
    answer: "count"
  }),
  ...ofGemini("embedContent", {
    summary: "Embed a text in Google's format",
    description: "One vector, by any provider of the model.",
    capability: "llm:embed",
    schema: embedRequest,
    example: { content },
    answer: "whole"
  }),
  ...ofGemini("batchEmbedContents", {
    summary: "Embed texts in Google's format",
    description: "A vector for each request, by any provider of the model.",
    capability: "llm:embed",
    schema: vendorObject("Google's request", {
      requests: { type: "array", minItems: 1, maxItems: 2048, items: embedRequest }
    }),
    example: { requests: [{ content }] },
    answer: "whole"
  }),
  "/v1beta/models": shown({
    operationId: "geminiModels",
    summary: "List models in Google's format",
    description: "A page of the models.",
    component: "GeminiError",
    parameters: [
      queried("pageSize", "The page size; 50 by default, and at most 1,000", {
        type: "integer",
        minimum: 0,
        maximum: 999_999_999
      }),
      queried("pageToken", "`nextPageToken` of the page before", { type: "string" })
    ]
  }),
  "/v1beta/models/{model}": shown({
    operationId: "geminiModel",
    summary: "Get a model in Google's format",
    description: "By any of its names.",
    component: "GeminiError",
    parameters: [modelName]
  })
}

/** Adds the compatibility endpoints to the document. */
export const withCompatibility = withForeign({
  tag,
  paths,
  schemas: { ModelId: modelId, ...errors },
  securitySchemes: googleKeys
})
