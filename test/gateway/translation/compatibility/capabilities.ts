/** How the money of a call ends. */
export type Ending = "provider_usage" | "aborted" | "estimated" | "unanswered" | "released" | "free"

/** What clients do, each a row of the table. */
export const capabilities = {
  create: { title: "Answers as a whole", ending: "provider_usage" },
  stream: { title: "Streams", ending: "provider_usage" },
  helper: { title: "Stream helpers", ending: "provider_usage" },
  system: { title: "System prompts", ending: "provider_usage" },
  limit: { title: "Output limits and stop reasons", ending: "provider_usage" },
  tools: { title: "Tools and their results, by the SDK's tool runner", ending: "provider_usage" },
  parallelTools: { title: "Parallel tools and their results", ending: "provider_usage", withoutLoopback: true },
  toolChoice: { title: "Forced tools", ending: "provider_usage" },
  images: { title: "Images, as data and by address", ending: "provider_usage" },
  documents: { title: "Documents", ending: "provider_usage" },
  json: { title: "JSON output by a schema, parsed by the SDK", ending: "provider_usage" },
  reasoning: { title: "Reasoning", ending: "provider_usage", withoutLoopback: true },
  abort: { title: "An abort, which reaches the provider", ending: "aborted", withoutLoopback: true },
  brokenStream: { title: "Errors in the middle of a stream", ending: "estimated", withoutLoopback: true },
  tooMany: { title: "429 of the provider", ending: "released", withoutLoopback: true },
  outOfOrder: { title: "500 of the provider", ending: "released", withoutLoopback: true },
  timeout: { title: "Timeout of the provider", ending: "unanswered", withoutLoopback: true },
  embeddings: { title: "Embeddings, in base64 and as numbers", ending: "provider_usage" },
  models: { title: "List and get models", ending: "free" },
  countTokens: { title: "Count tokens", ending: "free" }
} as const satisfies Readonly<Record<string, { title: string; ending: Ending; withoutLoopback?: true }>>

export type CapabilityKey = keyof typeof capabilities
