import { isJson } from "../../../kernel/json/parsed-json.ts"
import { anthropicErrors } from "../anthropic-messages/errors.ts"
import { anthropicMessages } from "../anthropic-messages/format.ts"
import { type BatchApi } from "./batches.ts"

/** Anthropic's batches, which are made with their requests in one body (API reference, "Message Batches"). */
export const anthropicBatches: BatchApi = {
  dialect: "anthropic",
  errors: anthropicErrors,
  hasFiles: false,
  path: "/v1/messages/batches",
  cancelPath: "/cancel",
  formats: new Map([["/v1/messages", anthropicMessages]]),
  maxRequests: 100_000,
  maxBytes: 268_435_456,
  customId: /^[a-zA-Z0-9_-]{1,64}$/,
  isEnded: ({ processing_status: status }) => status === "ended",
  resultPaths: ({ id }) => [`/v1/messages/batches/${encodeURIComponent(String(id))}/results`],
  resultIn: ({ custom_id: customId, result }) => {
    if (typeof customId !== "string") return undefined
    const { message, type } = isJson(result) ? result : {}
    return { customId, answer: type === "succeeded" && isJson(message) ? message : undefined }
  },
  shown: (batch, names) => {
    const id = names.id(String(batch.id))
    return { ...batch, id, results_url: (batch.results_url ?? null) === null ? null : names.resultsUrl(id) }
  }
}
