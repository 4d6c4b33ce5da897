import { isJson, listIn, textIn, type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { type ToolFees } from "../catalog/rate-domain.ts"
import { type BilledTool, billedTools, type TokenUsage, type ToolUses } from "../translation/domain.ts"
import { lookupTable } from "../../kernel/lookup-table.ts"

/** A tool of a request that its provider runs. */
export interface ProviderTool {
  /** Undefined for a tool without a fee, which costs the tokens of its results. */
  readonly billed: BilledTool | undefined
  readonly path: Fault["path"]
  /** The most uses that the request allows; undefined if it sets no limit. */
  readonly maxUses: number | undefined
  /** Whether a limit can be sent where the caller set none. */
  readonly takesLimit: boolean
  /** The most uses that are billed, if that is less than the limit: all code of an answer runs in one container. */
  readonly maxBilled?: number
  /** Whether it has no limit of its own, and runs once in each step of the model. */
  readonly isPerStep?: boolean
  /** The most tokens of a result, if the request limits them. */
  readonly maxResultTokens?: number | undefined
}

/** The tools of a request that its provider runs. */
export interface ProviderTools {
  readonly tools: ReadonlyArray<ProviderTool>
  /** The limit of the request for all of them together: `max_tool_calls` of the Responses API. */
  readonly maxCalls: number | undefined
  /** Whether that limit can be sent. */
  readonly takesMaxCalls: boolean
  /** How often the model reads the conversation again at most, if that is limited. */
  readonly maxSteps?: number
}

/** Anthropic's tools, by the names that come before the date of their version. */
const messagesTool =
  /^(web_search|web_fetch|code_execution)_(\d{8})$|^tool_search_tool_(?:regex|bm25)(?:_\d{8})?$|^mcp_toolset$/

/** From these versions on, code runs free of charge beside a web search or a web fetch. */
const firstWithFreeCode = 20_260_209

/** A turn of Anthropic's models pauses after so many steps, whatever tools run in them (`pause_turn`). */
const maxSteps = 10

const unlimited = { billed: undefined, maxUses: maxSteps, takesLimit: false, isPerStep: true }

const limitOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined

/** The provider-run tools of a request in Anthropic's form, which may also stand in a chat completion. */
const messagesTools = (body: Json): ReadonlyArray<ProviderTool> => {
  const given = listIn(body.tools).filter(isJson)
  const runsFreeCode = given.some(({ type }) => {
    const [, name, version] = messagesTool.exec(textIn(type)) ?? []
    return name?.startsWith("web_") === true && Number(version) >= firstWithFreeCode
  })
  const found = listIn(body.tools).flatMap((tool, index): ReadonlyArray<ProviderTool> => {
    const match = isJson(tool) ? messagesTool.exec(textIn(tool.type)) : null
    if (!isJson(tool) || match === null) return []
    const path = ["tools", index]
    switch (match[1]) {
      case "web_search":
        return [{ billed: "webSearch", path, maxUses: limitOf(tool.max_uses), takesLimit: true }]
      case "web_fetch": {
        const maxResultTokens = limitOf(tool.max_content_tokens)
        return [{ billed: undefined, path, maxUses: limitOf(tool.max_uses), takesLimit: true, maxResultTokens }]
      }
      case "code_execution":
        return [
          {
            billed: runsFreeCode ? undefined : "codeExecution",
            path,
            maxUses: maxSteps,
            takesLimit: false,
            maxBilled: 1,
            isPerStep: true
          }
        ]
      default:
        // The servers of a toolset are counted below.
        return tool.type === "mcp_toolset" ? [] : [{ ...unlimited, path }]
    }
  })
  if (listIn(body.mcp_servers).length === 0) return found
  return [...found, { ...unlimited, path: ["mcp_servers"] }]
}

/** The tools of the Responses API that OpenAI runs; some names end in the date of their version. */
const responsesTools: ReadonlyArray<readonly [type: RegExp, billed: BilledTool | undefined]> = [
  [/^web_search(?:_preview)?(?:_[\d_]+)?$/, "webSearch"],
  [/^file_search$/, "fileSearch"],
  [/^code_interpreter$/, "codeExecution"],
  [/^image_generation$/, "imageGeneration"],
  [/^(?:mcp|tool_search)$/, undefined]
]

const smallest = new Set<unknown>([undefined, null, "1g"])

const responsesToolOf = (tool: unknown): readonly [type: RegExp, billed: BilledTool | undefined] | undefined => {
  const type = isJson(tool) ? textIn(tool.type) : ""
  // A shell runs in a container of OpenAI's unless its environment is the caller's.
  if (
    type === "shell" &&
    isJson(tool) &&
    isJson(tool.environment) &&
    textIn(tool.environment.type).startsWith("container")
  ) {
    return [/^shell$/, "codeExecution"]
  }
  // A larger container costs more than the fee that is known.
  if (
    type === "code_interpreter" &&
    isJson(tool) &&
    isJson(tool.container) &&
    !smallest.has(tool.container.memory_limit)
  ) {
    return undefined
  }
  return responsesTools.find(([form]) => form.test(type))
}

/** Whether a tool's type is one that a provider runs at a bound cost. */
export const isProviderTool = (tool: unknown, api: "chat" | "messages" | "responses"): boolean =>
  api === "responses" ? responsesToolOf(tool) !== undefined : isJson(tool) && messagesTool.test(textIn(tool.type))

/** The tools of a request that its provider runs; undefined if there are none. */
export const providerToolsOf = (body: Json, api: "chat" | "messages" | "responses"): ProviderTools | undefined => {
  if (body.tools === undefined && body.mcp_servers === undefined && body.web_search_options === undefined)
    return undefined
  if (api === "responses") {
    const tools = listIn(body.tools).flatMap((tool, index): ReadonlyArray<ProviderTool> => {
      const found = responsesToolOf(tool)
      return found === undefined
        ? []
        : [{ billed: found[1], path: ["tools", index], maxUses: undefined, takesLimit: false }]
    })
    return tools.length === 0 ? undefined : { tools, maxCalls: limitOf(body.max_tool_calls), takesMaxCalls: true }
  }
  const tools = [...messagesTools(body)]
  if (api === "chat" && (body.web_search_options ?? null) !== null) {
    // The models that take it search once for each answer.
    tools.push({ billed: "webSearch", path: ["web_search_options"], maxUses: 1, takesLimit: false })
  }
  return tools.length === 0 ? undefined : { tools, maxCalls: undefined, takesMaxCalls: false, maxSteps }
}

/** More uses than these in one answer have no bound. */
const mostUses = 1000

/** The uses that a call is admitted with. */
export interface ToolLimits {
  /** Of all tools together. */
  readonly uses: number
  /** The limit to send where the caller set none; undefined if none is needed. */
  readonly limit: number | undefined
  readonly maxResultTokens: number
  /** How often the model reads the conversation again at most. */
  readonly maxSteps: number
  /** The most that the uses cost. */
  maxFees(fees: ToolFees): bigint
}

const isUnlimited = ({ maxCalls, takesMaxCalls, tools }: ProviderTools): boolean =>
  takesMaxCalls ? maxCalls === undefined : tools.some(({ maxUses, takesLimit }) => takesLimit && maxUses === undefined)

/** The bound of a request's tools, if each that the caller did not limit is used `defaultUses` times at most. */
export const toolLimits = (asked: ProviderTools, defaultUses: number, usualResultTokens: number): ToolLimits => {
  const { takesMaxCalls, tools } = asked
  const total = takesMaxCalls ? Math.min(mostUses, asked.maxCalls ?? defaultUses) : undefined
  const usesOf = ({ maxUses }: ProviderTool): number => Math.min(mostUses, total ?? maxUses ?? defaultUses)
  const limited = tools.reduce((sum, tool) => sum + (tool.isPerStep === true ? 0 : usesOf(tool)), 0)
  return {
    uses: total ?? limited + (tools.some(({ isPerStep }) => isPerStep) ? maxSteps : 0),
    maxSteps: asked.maxSteps ?? Infinity,
    limit: isUnlimited(asked) ? defaultUses : undefined,
    maxResultTokens: tools.reduce((most, tool) => Math.max(most, tool.maxResultTokens ?? usualResultTokens), 0),
    maxFees: (fees) => {
      const each = tools.map((tool) => {
        const fee = tool.billed === undefined ? 0n : (fees[tool.billed] ?? 0n)
        return { fee, most: BigInt(Math.min(tool.maxBilled ?? Infinity, usesOf(tool))) * fee }
      })
      return total === undefined
        ? each.reduce((sum, { most }) => sum + most, 0n)
        : BigInt(total) * each.reduce((dearest, { fee }) => (fee > dearest ? fee : dearest), 0n)
    }
  }
}

/** The tools whose limit is too high to be bounded. */
export const unboundedTools = ({ maxCalls, tools }: ProviderTools): ReadonlyArray<Fault> => {
  const message = `More than ${mostUses} uses have no bound`
  if ((maxCalls ?? 0) > mostUses) return [{ path: ["max_tool_calls"], message }]
  return tools.flatMap(({ maxUses = 0, path }) => (maxUses > mostUses ? [{ path, message }] : []))
}

/**
 * The input tokens of a turn in which tools run: after each use the model reads the conversation again, with all results so
 * far, and never more than its context. Where the uses exceed the steps, several run in the first one.
 */
export const inputWithTools = (
  inputTokens: number,
  { maxResultTokens, maxSteps: most, uses }: Pick<ToolLimits, "maxResultTokens" | "maxSteps" | "uses">,
  contextTokens: number | null
): number => {
  const context = contextTokens ?? Infinity
  const steps = Math.min(uses, most)
  let sum = Math.min(context, inputTokens)
  for (let use = uses - steps + 1; use <= uses; use++) sum += Math.min(context, inputTokens + use * maxResultTokens)
  return sum
}

const countOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) && value >= 0
    ? Math.min(mostReported, Math.ceil(value))
    : undefined

/** A larger count is no report. */
const mostReported = 1_000_000

/** What the items of a response say was used; a container is used once, however often code runs in it. */
const itemKinds = lookupTable<BilledTool>({
  web_search_call: "webSearch",
  file_search_call: "fileSearch",
  code_interpreter_call: "codeExecution",
  shell_call: "codeExecution",
  image_generation_call: "imageGeneration"
})

/** Reads from an answer, in any dialect, how often its tools were used: of its events, or of the whole. */
export class ToolUseReader {
  private readonly billed: ReadonlySet<BilledTool | undefined>
  private readonly searchesOnce: boolean
  /** What the answer contains, by what tells two uses apart. */
  private readonly seen = new Map<string, BilledTool>()
  /** The provider's own count, which goes before what the answer contains. */
  private searches: number | undefined
  private hasAnswered = false

  constructor({ tools }: ProviderTools) {
    this.billed = new Set(tools.map(({ billed }) => billed))
    this.searchesOnce = tools.some(({ path }) => path[0] === "web_search_options")
  }

  /** The uses so far; undefined if there are none. */
  get uses(): ToolUses | undefined {
    const counts: { [Tool in BilledTool]?: number } = {}
    for (const tool of this.seen.values()) counts[tool] = (counts[tool] ?? 0) + 1
    if (this.searchesOnce && this.hasAnswered) counts.webSearch ??= 1
    if (this.searches !== undefined) counts.webSearch = this.searches
    const used = billedTools.flatMap((tool) => {
      const count = counts[tool] ?? 0
      return count > 0 && this.billed.has(tool) ? [[tool, count] as const] : []
    })
    return used.length === 0 ? undefined : Object.fromEntries(used)
  }

  read(value: unknown): void {
    if (!isJson(value)) return
    const { choices, content, content_block: block, item, message, output, response, usage } = value
    if (isJson(usage)) this.usage(usage)
    if (isJson(response)) this.read(response)
    // The usage at the start of a message counts nothing yet.
    if (value.type === "message_start" && isJson(message)) return
    if (isJson(item)) this.item(item)
    for (const one of listIn(output)) if (isJson(one)) this.item(one)
    if (isJson(block)) this.block(block)
    for (const one of listIn(content)) if (isJson(one)) this.block(one)
    for (const choice of listIn(choices)) {
      if (!isJson(choice)) continue
      this.hasAnswered = true
      for (const said of [choice.message, choice.delta]) if (isJson(said)) this.annotations(said.annotations)
    }
  }

  /** Anthropic, and OpenRouter; Perplexity. */
  private usage({ num_search_queries: queries, server_tool_use: used }: Json): void {
    const searches = countOf(isJson(used) ? used.web_search_requests : undefined) ?? countOf(queries)
    if (searches !== undefined) this.searches = Math.max(this.searches ?? 0, searches)
  }

  private block({ id, name, type }: Json): void {
    if (type !== "server_tool_use") return
    if (name === "web_search") this.seen.set(`block ${textIn(id)}`, "webSearch")
    // All code of an answer runs in one container.
    if (textIn(name).endsWith("code_execution")) this.seen.set("container", "codeExecution")
  }

  private item({ action, container_id: own, environment, id, type }: Json): void {
    const tool = itemKinds[textIn(type)]
    if (tool === undefined) return
    const container = own ?? (isJson(environment) ? environment.container_id : undefined)
    if (tool === "codeExecution") {
      // Before its container is known, the call stands for it.
      if (container !== undefined) this.seen.delete(`call ${textIn(id)}`)
      this.seen.set(container === undefined ? `call ${textIn(id)}` : `container ${textIn(container)}`, tool)
      return
    }
    // Opening a page that was found is no search.
    const isSearch = !isJson(action) || action.type === undefined || action.type === "search"
    if (isSearch) this.seen.set(`item ${textIn(id)}`, tool)
    else this.seen.delete(`item ${textIn(id)}`)
  }

  private annotations(given: unknown): void {
    if (listIn(given).some((one) => isJson(one) && one.type === "url_citation"))
      this.seen.set("annotations", "webSearch")
  }
}

/** A usage with the uses that were read beside it. */
export const usageWithTools = (
  usage: TokenUsage | undefined,
  tools: ToolUseReader | undefined
): TokenUsage | undefined => {
  const toolUses = tools?.uses
  return usage === undefined || toolUses === undefined ? usage : { ...usage, toolUses }
}
