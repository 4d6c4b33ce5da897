import { isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type WireFormat } from "../format.ts"
import { openAiErrors } from "../openai-chat/errors.ts"
import { openAiChat } from "../openai-chat/format.ts"
import { openAiCompletions } from "../openai-completions/format.ts"
import { openAiEmbeddings } from "../openai-embeddings/format.ts"
import { openAiModerations } from "../openai-moderations/format.ts"
import { openAiResponses } from "../openai-responses/format.ts"
import { type BatchApi, type BatchNames } from "./batches.ts"

const formats = new Map<string, WireFormat>([
  ["/v1/chat/completions", openAiChat],
  ["/v1/responses", openAiResponses],
  ["/v1/embeddings", openAiEmbeddings],
  ["/v1/completions", openAiCompletions],
  ["/v1/moderations", openAiModerations]
])

const endings = new Set<unknown>(["completed", "failed", "expired", "cancelled"])

/** The member of a batch's metadata by which it is found again. */
const markName = "gateway_batch"

const metadataOf = ({ metadata }: Json): Json => (isJson(metadata) ? metadata : {})

const fileMembers = ["input_file_id", "output_file_id", "error_file_id"] as const

const shown = (batch: Json, { id }: BatchNames): Json => {
  const { [markName]: _, ...metadata } = metadataOf(batch)
  const files = fileMembers.flatMap((name) => {
    const file = batch[name]
    return typeof file === "string" && file !== "" ? [[name, id(file)] as const] : []
  })
  return {
    ...batch,
    id: id(String(batch.id)),
    ...Object.fromEntries(files),
    metadata: Object.keys(metadata).length === 0 ? null : metadata
  }
}

/** OpenAI's batches, whose requests and results are files (API reference, "Batch"). */
export const openAiBatches: BatchApi = {
  dialect: "openai",
  errors: openAiErrors,
  hasFiles: true,
  path: "/batches",
  cancelPath: "/cancel",
  formats,
  maxRequests: 50_000,
  maxBytes: 209_715_200,
  customId: /^[^]{1,512}$/,
  isEnded: ({ status }) => endings.has(status),
  resultPaths: ({ output_file_id: file }) =>
    typeof file === "string" && file !== "" ? [`/files/${encodeURIComponent(file)}/content`] : [],
  resultIn: ({ custom_id: customId, response }) => {
    if (typeof customId !== "string") return undefined
    const { body, status_code: status } = isJson(response) ? response : {}
    return { customId, answer: status === 200 && isJson(body) ? body : undefined }
  },
  marked: (request, mark) => ({ ...request, metadata: { ...metadataOf(request), [markName]: mark } }),
  markIn: (batch) => metadataOf(batch)[markName],
  shown
}
