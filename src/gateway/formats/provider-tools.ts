import { isJson, listIn, textIn, type Json } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { type BilledTool, type MediaClass, type Served } from "./domain.ts"
import { type ModelTraits } from "./traits-domain.ts"

/** An MCP server that an operator allows under a hard cap, by where its URLs begin. */
export interface AllowedMcpServer {
  readonly urlPrefix: string
  readonly maxSteps: number
}

/** Nano-dollars for each use of a tool. */
type ToolFees = { readonly [Tool in BilledTool]?: bigint }

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

/** Nano-dollars per million tokens, and of a tool or a request. */
export interface TargetRates {
  readonly basic: { readonly input: bigint; readonly output: bigint; readonly audioOutput?: bigint }
  readonly toolFees: { readonly webSearch?: bigint; readonly webSearchUnit?: "use" | "request" }
  readonly unitRates?:
    | { readonly requestUsd?: bigint; readonly audioSecondUsd?: bigint; readonly image?: ReadonlyArray<object> }
    | undefined
}

/** What is known of where a call may go. */
export interface BoundTarget {
  readonly rates?: TargetRates | null
  /** Whether the configuration or the catalogue has the model; else a caller chose its name. */
  readonly isListed: boolean
  readonly traits: ModelTraits
  readonly provider: {
    readonly vendor: string | undefined
    /** Members that an operator allows besides those that are known to be bounded. */
    readonly requestMembers?: ReadonlySet<string> | undefined
  }
}

/** What has no bound, unless it has one at every target. */
export interface Unbounded extends Fault {
  readonly isBoundedAt?: (target: BoundTarget) => boolean
  /** The service, or the class of tokens, that it asks for: bounded where every target has a price for it. */
  readonly pricedAs?: Served | MediaClass
}

/** What an operator has said of the providers that a call may reach. */
export interface ToolTerms {
  /** The servers that each of them allows; a call may use what all of them do. */
  readonly mcpServers: ReadonlyArray<ReadonlyArray<AllowedMcpServer>>
  /** The models by their providers' names. */
  readonly models: ReadonlyArray<{
    readonly model: string
    readonly traits: ModelTraits
    readonly rates?: TargetRates | null
  }>
}

export const noTerms: ToolTerms = { mcpServers: [], models: [] }

/** The tools of a request, and those whose cost has no bound. */
export interface FoundTools {
  readonly tools: ProviderTools | undefined
  readonly unbounded: ReadonlyArray<Unbounded>
}

/** A turn of Anthropic's models pauses after so many steps, whatever tools run in them (`pause_turn`). */
export const maxSteps = 10

/** More uses than these in one answer have no bound. */
const mostUses = 1000

/** A limit that is set; servers that test for truth take zero for none. */
export const limitOf = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : undefined

/** A tool with its place in the request. */
export type PlacedTool = readonly [tool: Json, path: Fault["path"]]

/** The tools of a list, and those within its namespaces. */
export const toolsIn = (list: unknown, path: Fault["path"]): ReadonlyArray<PlacedTool> =>
  listIn(list).flatMap((tool, index): ReadonlyArray<PlacedTool> => {
    if (!isJson(tool)) return []
    const at = path.concat(index)
    const placed: PlacedTool = [tool, at]
    // The tools of a pinned set are definitions that are part of the request.
    return tool.type === "mcp_toolset" ? [placed] : [placed].concat(toolsIn(tool.tools, at.concat("tools")))
  })

/** What is no tool in a list of tools, and so may be read in any way. */
const malformedIn = (list: unknown, path: Fault["path"]): ReadonlyArray<Fault["path"]> => {
  if ((list ?? null) === null) return []
  if (!Array.isArray(list)) return [path]
  return list.flatMap((tool, index) => {
    const at = path.concat(index)
    if (!isJson(tool)) return [at]
    return tool.type === "mcp_toolset" ? [] : malformedIn(tool.tools, at.concat("tools"))
  })
}

/** Members of a tool that the caller runs. Beside any other one, some providers run tools of their own. */
const ownToolMembers: ReadonlySet<string> = new Set(
  (
    "type name description function parameters input_schema output_schema input_examples strict custom format tools " +
    "cache_control defer_loading allowed_callers eager_input_streaming prompt_cache_breakpoint execution environment " +
    "display_width display_height display_width_px display_height_px display_number enable_zoom max_characters"
  ).split(" ")
)

/** Names of stored prompts, which may have tools. */
const storedPrompt = /@preset\//i
/** Names that choose another model, or more than that, unless an operator listed them. */
const routes = /^openrouter\/|(?:^|\/)(?:auto|[\w.-]*router)(?:$|[:@-])/i
/** Ends of a name that only choose where or in which size a model runs, as of OpenRouter and Ollama. */
const harmlessEnd =
  /^(?:free|nitro|floor|exacto|extended|beta|thinking|latest|instruct|chat|text|base|code|[eq]?\d[\w.-]*)$/i

const isRoute = (model: string): boolean =>
  routes.test(model) ||
  (!model.startsWith("ft:") &&
    model
      .split(":")
      .slice(1)
      .some((end) => !harmlessEnd.test(end)))

/** Models that cost more than one reading and one answer. */
export const unboundedModels = (models: ToolTerms["models"]): ReadonlyArray<Unbounded> => {
  const path = ["model"]
  if (models.some(({ model, traits }) => traits.searches === "unbounded" || storedPrompt.test(model))) {
    return [{ path, message: "A model that searches or runs tools by itself, as often as it decides, has no bound" }]
  }
  if (!models.some(({ model }) => isRoute(model))) return []
  const message = "A name that may choose other models or their tools has no bound unless an operator lists it"
  return [{ path, message, isBoundedAt: ({ isListed }) => isListed }]
}

const isWithin = (address: string, { urlPrefix }: AllowedMcpServer): boolean => {
  const url = URL.parse(address)
  const prefix = URL.parse(urlPrefix)
  if (url === null || prefix === null || url.origin !== prefix.origin || url.username + url.password !== "")
    return false
  const path = prefix.pathname.replace(/\/$/, "")
  return url.pathname === path || url.pathname.startsWith(`${path}/`)
}

/** Gathers the tools of a request that its provider runs. */
export class ToolFinder {
  readonly tools: Array<ProviderTool> = []
  readonly unbounded: Array<Unbounded> = []
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

  /** The tools of a list, and those within its namespaces. */
  listed(list: unknown, path: Fault["path"]): ReadonlyArray<PlacedTool> {
    for (const at of malformedIn(list, path)) this.refuse(at, "What is no tool in a list of tools has no bound")
    return toolsIn(list, path)
  }

  /** A tool that the caller runs. */
  own(tool: Json, path: Fault["path"]): void {
    for (const name in tool) {
      if (ownToolMembers.has(name) || (tool[name] ?? null) === null) continue
      this.refuse([...path, name], "What a provider runs for this member of a tool has no bound")
    }
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

/** The tools that were found, and whatever has no bound in them or in the models. */
export const foundTools = (
  { unbounded }: Pick<ToolFinder, "unbounded">,
  tools: ProviderTools | undefined,
  { models }: ToolTerms
): FoundTools => {
  const beyond = tools === undefined ? [] : beyondLimits(tools)
  return { tools, unbounded: [...unbounded, ...unboundedModels(models), ...beyond] }
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
