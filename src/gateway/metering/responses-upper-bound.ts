import { isJson, listIn, textIn, type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { isProviderTool, providerToolsOf, unboundedTools } from "./provider-tools.ts"
import {
  documentTokens,
  embedded,
  perMessage,
  perRequest,
  perTool,
  positive,
  priced,
  type TokenUpperBound,
  withTools
} from "./token-upper-bound.ts"

/** Tools that the caller runs. */
const runByCaller = /^(?:function|custom|namespace|local_shell|shell|apply_patch|computer)/

/** What a request of the Responses API has besides its text. */
class Walk {
  /** Bytes of the request that are not text. */
  payloadBytes = 0
  mediaTokens = 0
  /** What the provider stores, or fetches: as much as the model can read. */
  readonly remote: Array<Fault["path"]> = []
  readonly unbounded: Array<Fault> = []
  private readonly imageTokens: number

  constructor(imageTokens: number) {
    this.imageTokens = imageTokens
  }

  /** An item, a part of one, or what a tool returned. */
  part(part: unknown, at: Fault["path"]): void {
    if (!isJson(part)) return
    switch (part.type) {
      case "item_reference":
        this.remote.push(at)
        break
      case "input_image":
      case "computer_screenshot":
        this.embedded(part.image_url)
        this.mediaTokens += this.imageTokens
        break
      case "image_generation_call":
        if (typeof part.result === "string") this.payloadBytes += part.result.length
        this.mediaTokens += this.imageTokens
        break
      case "input_file":
        if (typeof part.file_data === "string") {
          this.embedded(part.file_data)
          this.mediaTokens += documentTokens(part.file_data)
        } else this.remote.push(at)
        break
      case "input_audio":
        this.unbounded.push({ path: at, message: "A part of type input_audio has no bound" })
        break
      default:
        for (const name of ["content", "output"]) this.parts(part[name], [...at, name])
    }
  }

  private parts(parts: unknown, at: Fault["path"]): void {
    if (isJson(parts)) this.part(parts, at)
    for (const [index, part] of listIn(parts).entries()) this.part(part, [...at, index])
  }

  private embedded(data: unknown): void {
    if (typeof data === "string" && embedded.test(data)) this.payloadBytes += data.length
  }
}

/**
 * The maximum usage of a request of the Responses API that its provider serves itself. What the provider stores or fetches
 * is bounded by what the model can read, if that is known.
 */
export const responsesBound = (
  body: Json,
  bodyBytes: number,
  imageTokens: number,
  contextTokens: number | null
): TokenUpperBound => {
  const walk = new Walk(imageTokens)
  const refuse = (path: Fault["path"], message: string) => void walk.unbounded.push({ path, message })
  const items = listIn(body.input)
  for (const [index, item] of items.entries()) walk.part(item, ["input", index])
  if ((body.previous_response_id ?? null) !== null) walk.remote.push(["previous_response_id"])
  if ((body.prompt ?? null) !== null) walk.remote.push(["prompt"])
  const tools = listIn(body.tools)
  for (const [index, tool] of tools.entries()) {
    const type = isJson(tool) ? textIn(tool.type) : ""
    if (isProviderTool(tool, "responses") || runByCaller.test(type)) continue
    refuse(["tools", index], "A tool that the provider runs has no bound")
  }
  const providerTools = providerToolsOf(body, "responses")
  for (const fault of providerTools === undefined ? [] : unboundedTools(providerTools)) walk.unbounded.push(fault)
  for (const [member, free] of priced.openai) {
    const value = body[member]
    if (value !== undefined && value !== null && !free.includes(value)) {
      refuse([member], "What this costs has no bound")
    }
  }
  // Compaction has a model read all of the input and summarize it.
  const times = listIn(body.context_management).length > 0 ? 2 : 1
  const [remote] = walk.remote
  if (remote !== undefined && contextTokens === null) {
    refuse(remote, "What the provider adds has no bound where the model's `contextTokens` is not configured")
  }
  const counted =
    bodyBytes -
    walk.payloadBytes +
    walk.mediaTokens +
    perRequest +
    perMessage * items.length +
    (tools.length > 0 ? withTools + perTool * tools.length : 0)
  return {
    inputTokens: times * (remote === undefined ? counted : Math.max(counted, contextTokens ?? 0)),
    mediaTokens: remote === undefined ? walk.mediaTokens : Math.max(walk.mediaTokens, contextTokens ?? 0),
    ...(remote === undefined ? {} : { isRemote: true }),
    extraOutputTokens: 0,
    choices: times,
    ...(providerTools === undefined ? {} : { tools: providerTools }),
    askedOutputTokens: positive(body.max_output_tokens),
    unbounded: walk.unbounded
  }
}

/** The same for a compaction, whose output has no limit but the model's. */
export const compactionBound = (
  body: Json,
  bodyBytes: number,
  imageTokens: number,
  contextTokens: number | null,
  maxOutputTokens: number | null
): TokenUpperBound => {
  const bound = responsesBound(body, bodyBytes, imageTokens, contextTokens)
  const unlimited = {
    path: ["model"],
    message: "A compaction has no bound where the model's `maxOutputTokens` is not known"
  }
  return {
    ...bound,
    // Zero where it is unknown, so that no limit is sent, which this API does not take.
    askedOutputTokens: maxOutputTokens ?? 0,
    unbounded: maxOutputTokens === null ? [...bound.unbounded, unlimited] : bound.unbounded
  }
}

/** The output tokens that the API writes unless it is asked for more or fewer. */
export const usualCompletionTokens = 16

/** The maximum usage of a text completion: each prompt has its choices. */
export const completionsBound = (body: Json, bodyBytes: number): TokenUpperBound => {
  const prompts = listIn(body.prompt)
  const count = prompts.length === 0 || typeof prompts[0] === "number" ? 1 : prompts.length
  const unbounded = priced.openai.flatMap(([member, free]) => {
    const value = body[member]
    return value === undefined || value === null || free.includes(value)
      ? []
      : [{ path: [member], message: "What this costs has no bound" }]
  })
  return {
    inputTokens: bodyBytes + perRequest + perMessage * count,
    mediaTokens: 0,
    extraOutputTokens: 0,
    choices: count * Math.max(positive(body.n) ?? 1, positive(body.best_of) ?? 1),
    askedOutputTokens: body.max_tokens === 0 ? 0 : positive(body.max_tokens),
    unbounded
  }
}
