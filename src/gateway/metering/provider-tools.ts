import { isJson, listIn, textIn, type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { type ToolFees } from "../catalog/rate-domain.ts"
import { type AllowedMcpServer } from "../configuration/configuration-domain.ts"
import { type BilledTool } from "../translation/domain.ts"

/** The API that a request is in, which decides what its tools are called. */
export type ToolApi = "chat" | "messages" | "responses"

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
  /** About how many tokens a result has, if the request says so: Anthropic calls `max_content_tokens` approximate. */
  readonly usualResultTokens?: number | undefined
  /**
   * The most that a result adds to what the model reads: so many tokens, or as much as the request itself has. Undefined
   * where the result comes from elsewhere, and is as long as what the model can read.
   */
  readonly maxResult?: number | "request"
  /** Whether the model reads what stands elsewhere even if the tool is never used: the definitions of an MCP server. */
  readonly isDefinedElsewhere?: boolean
}

/** The tools of a request that its provider runs. */
export interface ProviderTools {
  readonly tools: ReadonlyArray<ProviderTool>
  /** The limit of the request for all of them together: `max_tool_calls` of the Responses API. */
  readonly maxCalls: number | undefined
  /** Whether that limit can be sent. */
  readonly takesMaxCalls: boolean
  /** The most uses to ask for where the caller set no limit, if an operator allows fewer than usual. */
  readonly maxDefaultUses?: number | undefined
  /** How often the model reads the conversation again at most, if that is limited. */
  readonly maxSteps?: number
  /** Tools that cost no fee in this request, though they have one otherwise. */
  readonly free?: ReadonlyArray<BilledTool>
  /** Whether the answer is based on one search, even if it does not report any. */
  readonly searchesOnce?: boolean
}

/** What an operator has said of the providers that a call may reach. */
export interface ToolTerms {
  /** The servers that each of them allows; a call may use what all of them do. */
  readonly mcpServers: ReadonlyArray<ReadonlyArray<AllowedMcpServer>>
  /** The providers' names of the models. */
  readonly models: ReadonlyArray<string>
}

const noTerms: ToolTerms = { mcpServers: [], models: [] }

/** The tools of a request, and those whose cost has no bound. */
export interface FoundTools {
  readonly tools: ProviderTools | undefined
  readonly unbounded: ReadonlyArray<Fault>
}

/** Anthropic's tools, by the names that come before the date of their version. */
const messagesTool = /^(web_search|web_fetch|code_execution)_(\d{8})$|^tool_search_tool_(?:regex|bm25)(?:_\d{8})?$/

/** From these versions on, code runs free of charge beside a web search or a web fetch. */
const firstWithFreeCode = 20_260_209

/** A turn of Anthropic's models pauses after so many steps, whatever tools run in them (`pause_turn`). */
const maxSteps = 10

/** More uses than these in one answer have no bound. */
const mostUses = 1000

/** Covers an image that a tool returns, for every model: OpenAI's dearest count of its tiles. */
const imageResultTokens = 48_169

const limitOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined

/** Tools that Anthropic defines and the caller runs. */
const runByMessagesCaller = /^(?:bash|text_editor|computer|memory)_\d{8}$|^(?:browser|computer)_toolset_\d{8}$/

/** Tools of the Responses API that the caller runs. */
const runByResponsesCaller: ReadonlySet<string> = new Set(
  ["function", "custom", "namespace", "local_shell", "apply_patch", "computer", "computer_use_preview"].concat([
    "computer-preview",
    "computer_use"
  ])
)

/** Whether a tool of the vendor's is run by the caller, so that only its definition costs tokens. */
export const isVendorToolOfCaller = (type: string, api: ToolApi): boolean =>
  api !== "responses" && runByMessagesCaller.test(type)

/** A tool with its place in the request. */
type PlacedTool = readonly [tool: Json, path: Fault["path"]]

/** The tools of a list, and those within its namespaces. */
const toolsIn = (list: unknown, path: Fault["path"]): ReadonlyArray<PlacedTool> =>
  listIn(list).flatMap((tool, index): ReadonlyArray<PlacedTool> => {
    if (!isJson(tool)) return []
    const at = path.concat(index)
    const placed: PlacedTool = [tool, at]
    // The tools of a pinned set are definitions that are part of the request.
    return tool.type === "mcp_toolset" ? [placed] : [placed].concat(toolsIn(tool.tools, at.concat("tools")))
  })

/** Tools that are added within a conversation of Anthropic's. */
const toolsAdded = (messages: unknown): ReadonlyArray<PlacedTool> =>
  listIn(messages).flatMap((message, index) => {
    const blocks = isJson(message) ? listIn(message.content) : []
    return blocks.flatMap((block, place) => addedBy(block, ["messages", index, "content", place]))
  })

const addedBy = (block: unknown, path: Fault["path"]): ReadonlyArray<PlacedTool> => {
  if (!isJson(block)) return []
  if (block.type === "tool_addition") return isJson(block.tool) ? [[block.tool, [...path, "tool"]]] : []
  return listIn(block.tool_changes).flatMap((change, index) => addedBy(change, [...path, "tool_changes", index]))
}

/** References to tools that are declared elsewhere in the same request. */
const toolReferences: ReadonlySet<string> = new Set(["tool_reference", "mcp_tool_reference", "mcp_toolset_reference"])

/** All tools of a request, wherever they stand: its own, and those that items and messages add. */
const placedTools = (body: Json, api: ToolApi): ReadonlyArray<PlacedTool> => [
  ...toolsIn(body.tools, ["tools"]),
  ...(api === "responses"
    ? listIn(body.input).flatMap((item, index) =>
        isJson(item) && item.type !== "mcp_list_tools" ? toolsIn(item.tools, ["input", index, "tools"]) : []
      )
    : toolsAdded(body.messages))
]

/** Models that search for each answer, once, whether or not the request asks for it. */
const searchesOnce = /search-(?:preview|api)/
/** Models that search or run tools of their own, as often as they decide. */
const runsToolsByItself = /(?:^|[/-])sonar|:online$|deep-research|(?:^|\/)compound/

const isWithin = (address: string, { urlPrefix }: AllowedMcpServer): boolean => {
  const url = URL.parse(address)
  const prefix = URL.parse(urlPrefix)
  if (url === null || prefix === null || url.origin !== prefix.origin || url.username + url.password !== "")
    return false
  const path = prefix.pathname.replace(/\/$/, "")
  return url.pathname === path || url.pathname.startsWith(`${path}/`)
}

class ToolFinder {
  readonly tools: Array<ProviderTool> = []
  readonly unbounded: Array<Fault> = []
  maxDefaultUses: number | undefined
  private readonly terms: ToolTerms

  constructor(terms: ToolTerms) {
    this.terms = terms
  }

  refuse(path: Fault["path"], message: string): void {
    this.unbounded.push({ path, message })
  }

  /** A tool of a vendor whose cost is not known. */
  unknown(path: Fault["path"], type: string): void {
    this.refuse(path, `A tool of type ${type || "unknown"} that the provider runs has no bound`)
  }

  /** What an MCP server defines and returns is the choice of who runs it, so an operator has to allow the server. */
  mcp(path: Fault["path"], address: unknown, tool: Partial<ProviderTool>): void {
    const allowed = this.terms.mcpServers.map((servers) => servers.find((one) => isWithin(textIn(address), one)))
    if (allowed.length === 0 || allowed.includes(undefined)) {
      this.refuse(
        path,
        "What an MCP server defines and returns has no bound unless an operator lists its URL in `mcpServers` of the provider"
      )
    }
    const uses = allowed.map((one) => one?.maxSteps ?? mostUses)
    this.maxDefaultUses = Math.min(this.maxDefaultUses ?? mostUses, ...uses)
    this.tools.push({
      billed: undefined,
      path,
      maxUses: undefined,
      takesLimit: false,
      isDefinedElsewhere: true,
      ...tool
    })
  }
}

const perStep = { billed: undefined, maxUses: maxSteps, takesLimit: false, isPerStep: true } as const

const versionOf = ({ type }: Json) => messagesTool.exec(textIn(type))

/** The provider-run tools of a request in Anthropic's form, which may also stand in a chat completion. */
const messagesTools = (body: Json, api: ToolApi, terms: ToolTerms): FoundTools => {
  const found = new ToolFinder(terms)
  const placed = placedTools(body, api)
  const runsFreeCode = placed.some(([tool]) => {
    const [, name, version] = versionOf(tool) ?? []
    return name?.startsWith("web_") === true && Number(version) >= firstWithFreeCode
  })
  for (const [tool, path] of placed) {
    // A tool without a type is the caller's own: Anthropic's by its name, OpenAI's by its function.
    const isOwn = api === "messages" || isJson(tool.function) || typeof tool.name === "string"
    const type = tool.type === undefined ? (isOwn ? "custom" : "") : textIn(tool.type)
    const match = versionOf(tool)
    if (match === null) {
      const isCallers = type === "custom" || type === "function" || runByMessagesCaller.test(type)
      // The servers of a toolset are counted below; a reference names a tool of this request.
      if (!isCallers && type !== "mcp_toolset" && !toolReferences.has(type)) found.unknown(path, type)
      continue
    }
    switch (match[1]) {
      case "web_search":
        found.tools.push({ billed: "webSearch", path, maxUses: limitOf(tool.max_uses), takesLimit: true })
        break
      case "web_fetch": {
        const usualResultTokens = limitOf(tool.max_content_tokens)
        const maxUses = limitOf(tool.max_uses)
        found.tools.push({ billed: undefined, path, maxUses, takesLimit: true, usualResultTokens })
        break
      }
      case "code_execution":
        found.tools.push({ ...perStep, billed: runsFreeCode ? undefined : "codeExecution", path, maxBilled: 1 })
        break
      default:
        // A search among tools returns definitions that are part of the request.
        found.tools.push({ ...perStep, path, maxResult: "request" })
    }
  }
  for (const [index, server] of listIn(body.mcp_servers).entries()) {
    found.mcp(["mcp_servers", index], isJson(server) ? server.url : undefined, perStep)
  }
  const searches = (body.web_search_options ?? null) !== null || terms.models.some((model) => searchesOnce.test(model))
  if (api === "chat" && searches) {
    found.tools.push({ billed: "webSearch", path: ["web_search_options"], maxUses: 1, takesLimit: false })
  }
  if (found.tools.length === 0) return { tools: undefined, unbounded: found.unbounded }
  return {
    tools: {
      tools: found.tools,
      maxCalls: undefined,
      takesMaxCalls: false,
      maxSteps,
      ...(runsFreeCode ? { free: ["codeExecution"] as const } : {}),
      ...(api === "chat" && searches ? { searchesOnce: true } : {})
    },
    unbounded: found.unbounded
  }
}

/** The tools of the Responses API that OpenAI runs; some names end in the date of their version. */
const responsesTool = /^(?:(web_search)(?:_preview)?(?:_[\d_]+)?|file_search|code_interpreter|image_generation)$/

const responsesBilled = (type: string): BilledTool | undefined => {
  if (responsesTool.exec(type)?.[1] !== undefined) return "webSearch"
  return type === "file_search" ? "fileSearch" : type === "image_generation" ? "imageGeneration" : undefined
}

const smallest = new Set<unknown>([undefined, null, "1g"])

/** Whether a container is of the size whose fee is known; a larger one costs more. */
const isSmallest = (container: unknown): boolean => !isJson(container) || smallest.has(container.memory_limit)

const responsesTools = (body: Json, terms: ToolTerms): FoundTools => {
  const found = new ToolFinder(terms)
  const usual = { maxUses: undefined, takesLimit: false }
  const container = (path: Fault["path"], where: unknown) => {
    if (isSmallest(where)) found.tools.push({ ...usual, billed: "codeExecution", path })
    else found.refuse(path, "The fee of a container of more than 1 GB is not known")
  }
  for (const [tool, path] of placedTools(body, "responses")) {
    const type = textIn(tool.type)
    if (type === "mcp") {
      const { connector_id: connector, tunnel_id: tunnel } = tool
      found.mcp(path, (connector ?? tunnel ?? null) === null ? tool.server_url : undefined, {})
    } else if (type === "code_interpreter") container(path, tool.container)
    // A shell runs in a container of the provider's unless its environment is the caller's.
    else if (type === "shell") {
      const { environment } = tool
      const isLocal = (environment ?? null) === null || (isJson(environment) && environment.type === "local")
      if (!isLocal) container(path, environment)
    } else if (type === "tool_search") {
      // The definitions that it loads are part of the request; a search that the caller runs is the caller's.
      if (tool.execution !== "client") found.tools.push({ ...usual, billed: undefined, path, maxResult: "request" })
    } else if (responsesTool.test(type)) {
      const image = type === "image_generation" ? { maxResult: imageResultTokens } : {}
      found.tools.push({ ...usual, billed: responsesBilled(type), path, ...image })
    } else if (!runByResponsesCaller.has(type)) found.unknown(path, type)
  }
  const { maxDefaultUses, tools, unbounded } = found
  if (tools.length === 0) return { tools: undefined, unbounded }
  return {
    tools: { tools, maxCalls: limitOf(body.max_tool_calls), takesMaxCalls: true, maxDefaultUses },
    unbounded
  }
}

/** The tools of a request that its provider runs, wherever they stand, and those whose cost has no bound. */
export const providerToolsOf = (body: Json, api: ToolApi, terms: ToolTerms = noTerms): FoundTools => {
  const { tools, unbounded } = api === "responses" ? responsesTools(body, terms) : messagesTools(body, api, terms)
  const byItself = terms.models.some((model) => runsToolsByItself.test(model))
    ? [
        {
          path: ["model"],
          message: "A model that searches or runs tools by itself, as often as it decides, has no bound"
        }
      ]
    : []
  return { tools, unbounded: [...unbounded, ...byItself, ...(tools === undefined ? [] : beyondLimits(tools))] }
}

/** The tools whose limit is too high to be bounded. */
const beyondLimits = ({ maxCalls = 0, maxDefaultUses = mostUses, tools }: ProviderTools): ReadonlyArray<Fault> => {
  const message = `More than ${mostUses} uses have no bound`
  if (maxCalls > mostUses) return [{ path: ["max_tool_calls"], message }]
  if (maxCalls > maxDefaultUses) {
    return [{ path: ["max_tool_calls"], message: `The provider's \`mcpServers\` allow ${maxDefaultUses} uses at most` }]
  }
  return tools.flatMap(({ maxUses = 0, path }) => (maxUses > mostUses ? [{ path, message }] : []))
}

/** The uses that a call is admitted with. */
export interface ToolLimits {
  /** Of all tools together. */
  readonly uses: number
  /** The limit to send where the caller set none; undefined if none is needed. */
  readonly limit: number | undefined
  /** How often the model reads the conversation again at most. */
  readonly maxSteps: number
  /** The most that the uses cost. */
  maxFees(fees: ToolFees): bigint
}

const isUnlimited = ({ maxCalls, takesMaxCalls, tools }: ProviderTools): boolean =>
  takesMaxCalls ? maxCalls === undefined : tools.some(({ maxUses, takesLimit }) => takesLimit && maxUses === undefined)

/** The uses of a request's tools, if each that the caller did not limit is used `defaultUses` times at most. */
export const toolLimits = (asked: ProviderTools, defaultUses: number): ToolLimits => {
  const { maxDefaultUses = Infinity, takesMaxCalls, tools } = asked
  const usual = Math.min(defaultUses, maxDefaultUses)
  const total = takesMaxCalls ? Math.min(mostUses, asked.maxCalls ?? usual) : undefined
  const usesOf = ({ maxUses }: ProviderTool): number => Math.min(mostUses, total ?? maxUses ?? usual)
  const limited = tools.reduce((sum, tool) => sum + (tool.isPerStep === true ? 0 : usesOf(tool)), 0)
  return {
    uses: total ?? limited + (tools.some(({ isPerStep }) => isPerStep) ? maxSteps : 0),
    maxSteps: asked.maxSteps ?? Infinity,
    limit: isUnlimited(asked) ? usual : undefined,
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

/** How much a result adds at most: infinitely much, so the whole context, where it comes from elsewhere. */
export const maxResultTokens = ({ tools }: ProviderTools, requestTokens: number): number =>
  tools.reduce(
    (most, { maxResult = Infinity }) => Math.max(most, maxResult === "request" ? requestTokens : maxResult),
    0
  )

/** How much a result adds usually, for estimates; no cap may rest on it. */
export const usualResultTokens = ({ tools }: ProviderTools, usual: number): number =>
  tools.reduce((most, tool) => Math.max(most, tool.usualResultTokens ?? usual), 0)

/**
 * The input tokens of a turn in which tools run: after each use the model reads the conversation again, with all results so
 * far, and never more than its context. Where the uses exceed the steps, several run in the first one.
 */
export const inputWithTools = (
  inputTokens: number,
  { maxSteps: most, uses }: Pick<ToolLimits, "maxSteps" | "uses">,
  resultTokens: number,
  contextTokens: number | null
): number => {
  const context = contextTokens ?? Infinity
  const steps = Math.min(uses, most)
  let sum = Math.min(context, inputTokens)
  for (let use = uses - steps + 1; use <= uses; use++) sum += Math.min(context, inputTokens + use * resultTokens)
  return sum
}

/** How often the model of a call with such tools writes at most: its output limit may hold for each step. */
export const stepsWithTools = ({ maxSteps: most, uses }: Pick<ToolLimits, "maxSteps" | "uses">): number =>
  1 + Math.min(uses, most)
