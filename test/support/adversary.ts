import { type Dice } from "../contract/dice.ts"

/** What a call made the model read and write, and how often it used tools that have a fee. */
export interface Consumption {
  readonly input: number
  readonly output: number
  readonly searches: number
}

/** A request as a provider receives it. */
// oxlint-disable-next-line typescript/no-explicit-any -- requests have every shape
export type Body = any

const list = (value: unknown): ReadonlyArray<Body> => (Array.isArray(value) ? value : [])

/** The bytes of all text that stands in a value; data of images and documents is not text. */
const textBytes = (value: unknown): number => {
  if (typeof value === "string") return value.startsWith("data:") ? 0 : Buffer.byteLength(value)
  if (typeof value !== "object" || value === null) return 1
  return Object.entries(value).reduce((sum, [name, member]) => {
    return name === "data" ? sum : sum + Buffer.byteLength(name) + textBytes(member)
  }, 0)
}

/** Every object within a value. */
const objects = (value: unknown): ReadonlyArray<Body> =>
  typeof value !== "object" || value === null
    ? []
    : [...(Array.isArray(value) ? [] : [value]), ...Object.values(value).flatMap(objects)]

const addressOf = (part: Body): unknown => part.source?.url ?? part.file_url ?? part.file?.file_data
/** Documents at an address, and those that are packed, whose length does not follow from their bytes. */
const isDocument = (part: Body): boolean =>
  (part.type === "document" && part.source?.type !== "text" && part.source?.type !== "content") ||
  part.type === "file" ||
  part.type === "input_file"
const isImage = (part: Body): boolean => ["image", "image_url", "input_image"].includes(part.type)

/** Members that the vendors' references document for these requests. A server may do anything for any other one. */
const documented = new Set(
  (
    "model messages input instructions system stream max_tokens max_completion_tokens max_output_tokens max_tool_calls " +
    "tools tool_choice mcp_servers metadata temperature top_p stop seed user store n reasoning thinking service_tier speed " +
    "inference_geo modalities audio"
  ).split(" ")
)

/** Where an image is, or what is said to be one. */
const imageAddressOf = ({ image_url: image, source }: Body): string => {
  if (source?.type === "base64") return `data:${source.media_type};base64,${source.data}`
  return String(source?.url ?? image?.url ?? image)
}

/** How many tokens an image has for a server that reads whatever is there, by its own kind. */
const imageTokens = (part: Body, takesOnlyImages: boolean, contextTokens: number, visit: () => number): number => {
  const at = imageAddressOf(part).trimStart().toLowerCase()
  if (/^data:image\/(?:png|jpeg|gif|webp)[;,]/.test(at)) return 12_000
  if (at.startsWith("data:")) return contextTokens / 2
  return takesOnlyImages && at.startsWith("http") ? 12_000 : visit()
}

/** Texts that a server takes for the address of a file that it stores. */
const referenceTexts = (value: unknown): number =>
  typeof value === "string"
    ? Number(value.startsWith("fileid://"))
    : typeof value === "object" && value !== null
      ? Object.values(value).reduce<number>((sum, one) => sum + referenceTexts(one), 0)
      : 0

/** Tools that a server runs though they stand in a form that no vendor documents. */
const oddTools = (tools: unknown): number => {
  if (tools === undefined) return 0
  if (!Array.isArray(tools)) return 1
  return tools.filter((tool) => typeof tool !== "object" || Array.isArray(tool) || "google_search" in tool).length
}

const fetches = /^web_fetch_\d|^web_search(?:_preview)?(?:_\d+)?$|^code_execution_\d|^file_search$|^code_interpreter$/
const searchesAmongTools = /^tool_search(?:_tool.*)?$/

/** What a provider's model reads of a request at first, where an adversary owns what is at the addresses in it. */
const reading = (body: Body, contextTokens: number, dice: Dice, takesOnlyImages = false) => {
  const all = objects(body)
  /** The length of what is at an address at this visit. */
  const visit = () => dice.pick([1, 50, dice.below(contextTokens), contextTokens, 10 * contextTokens])
  const inBody = textBytes(body)
  const images = all
    .filter(isImage)
    .reduce<number>((sum, part) => sum + imageTokens(part, takesOnlyImages, contextTokens, visit), 0)
  const files = referenceTexts(body.messages ?? body.input) * visit()
  const documents = all
    .filter(isDocument)
    // What is packed is always the same.
    .reduce<number>((sum, part) => sum + (addressOf(part) === undefined ? contextTokens / 2 : visit()), 0)
  const servers = list(body.mcp_servers).length + all.filter(({ type }) => type === "mcp").length
  const definitions = () => Array.from({ length: servers }, visit).reduce((sum, length) => sum + length, 0)
  return { all, visit, inBody, fixed: inBody + images + documents + files, servers, definitions }
}

/** What the provider's count of a request says. */
export const countOf = (body: Body, contextTokens: number, dice: Dice): number => {
  const { definitions, fixed } = reading(body, contextTokens, dice)
  return fixed + definitions()
}

/**
 * What a model consumes for whoever owns every server that the provider visits, and chooses at each visit what is there. The
 * provider keeps its own limits: the context in each step, `max_uses` and ten steps of Anthropic's, `max_tool_calls` of
 * OpenAI's, and the output limit in each step.
 */
export const consumption = (
  body: Body,
  contextTokens: number,
  dice: Dice,
  vendor: { readonly isVendor: boolean } = { isVendor: false }
): Consumption => {
  const { all, definitions, fixed, inBody, servers, visit } = reading(body, contextTokens, dice, vendor.isVendor)
  const read = (tokens: number) => Math.min(contextTokens, tokens)
  const isResponses = body.input !== undefined
  const others = Object.entries(body).filter(([name, value]) => !documented.has(name) && value !== null)
  const limits = others.flatMap(([, value]) => (typeof value === "number" ? [value] : []))
  const most = Math.max(body.max_tokens ?? 0, body.max_completion_tokens ?? 0, body.max_output_tokens ?? 0)
  // Servers that test for truth take a limit of zero for none; Anthropic's own answers with nothing.
  const own = most > 0 || vendor.isVendor ? most : 100_000
  const budget = body.thinking?.budget_tokens ?? body.reasoning?.max_tokens ?? 0
  const limit = (body.n ?? 1) * (Math.max(own, ...limits) + (budget > own ? budget : 0))
  const write = () => dice.pick([limit, dice.below(limit + 1)])
  const uses = all
    .filter(({ type }) => typeof type === "string" && (fetches.test(type) || searchesAmongTools.test(type)))
    .map((tool) => ({ tool, left: isResponses ? Infinity : tool.max_uses || Infinity }))
  const servable = Array.from({ length: servers }, () => ({ tool: { type: "mcp" }, left: Infinity }))
  const odd = Array.from({ length: oddTools(body.tools) }, () => ({ tool: { type: "odd" }, left: Infinity }))
  const tools = [...uses, ...servable, ...odd]
  let input = read(fixed + definitions())
  let output = write()
  // Anything else may have it read, or call another model.
  for (const [, value] of others) if (typeof value !== "number") input += read(visit())
  let results = 0
  let searches = 0
  let calls = isResponses ? body.max_tool_calls || Infinity : Infinity
  const steps = isResponses ? 1000 : 10
  for (let step = 0; step < steps; step++) {
    const usable = tools.filter(({ left }) => left > 0)
    const used = dice.pickOr<(typeof tools)[number] | undefined>(usable, undefined)
    if (used === undefined || calls <= 0 || dice.chance(0.05)) break
    calls--
    used.left--
    if (used.tool.type.startsWith("web_search")) searches++
    results += searchesAmongTools.test(used.tool.type) ? inBody : visit()
    input += read(fixed + definitions() + results)
    output += write()
  }
  return { input, output, searches }
}
