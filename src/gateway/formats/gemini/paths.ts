/** The methods of a model that are served. */
export const modelMethods = [
  "generateContent",
  "streamGenerateContent",
  "countTokens",
  "embedContent",
  "batchEmbedContents"
] as const
export type ModelMethod = (typeof modelMethods)[number]

/** What a path of Gemini's API names. */
export type GeminiPath =
  | { readonly kind: "method"; readonly model: string; readonly method: ModelMethod }
  | { readonly kind: "model"; readonly model: string }
  | { readonly kind: "models" }
  /** A method that is not served. */
  | { readonly kind: "unknown"; readonly method: string }

const isMethod = (name: string): name is ModelMethod => modelMethods.some((method) => method === name)

const prefix = /^\/v1(?:beta)?\/models(?:\/|$)/

const decoded = (text: string): string | undefined => {
  try {
    return decodeURIComponent(text)
  } catch {
    return undefined
  }
}

/**
 * Reads the path of a request, without its query. The method of a POST follows the last colon, since the names of models may
 * have slashes and colons; a GET names a model alone. Undefined if the path is not one of Gemini's.
 */
export const readPath = (verb: "GET" | "POST", path: string): GeminiPath | undefined => {
  if (!prefix.test(path)) return undefined
  const name = decoded(path.replace(prefix, ""))
  if (name === undefined) return undefined
  if (verb === "GET") return name === "" ? { kind: "models" } : { kind: "model", model: name }
  const colon = name.lastIndexOf(":")
  const method = colon < 0 ? "" : name.slice(colon + 1)
  const model = name.slice(0, Math.max(0, colon))
  return isMethod(method) && model !== "" ? { kind: "method", model, method } : { kind: "unknown", method }
}

/** What to say of a method that is not served. */
export const servedMethods = `Served are GET /v1beta/models, GET /v1beta/models/{model}, and POST /v1beta/models/{model}:${modelMethods.join("|")}`

/** The name of a model as it is referred to: `models/` may come before it. */
export const modelNameOf = (name: string): string => (name.startsWith("models/") ? name.slice("models/".length) : name)

/** The path of a call to a provider, below its version: `baseUrl` ends in `/v1beta`. */
export const providerPath = (model: string, method: ModelMethod): string =>
  `/models/${modelNameOf(model).split("/").map(encodeURIComponent).join("/")}:${method}${method === "streamGenerateContent" ? "?alt=sse" : ""}`

/** Whether a URL is of Google's clients: its version, a method of a model, or the key in the query. */
export const isGooglePath = (url: string): boolean => {
  const [path = "", query = ""] = url.split("?", 2)
  if (path.startsWith("/v1beta")) return true
  return readPath("POST", path)?.kind === "method" || (prefix.test(path) && new URLSearchParams(query).has("key"))
}
