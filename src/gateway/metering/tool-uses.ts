import { isJson, listIn, textIn, type Json } from "../../kernel/json/parsed-json.ts"
import { lookupTable } from "../../kernel/lookup-table.ts"
import { type BilledTool, billedTools, type ToolUses } from "../formats/domain.ts"
import { type ProviderTools } from "../formats/provider-tools.ts"
import { isCount } from "../formats/usage.ts"

const countOf = (value: unknown): number | undefined => {
  const number = isCount(value) ? Number(value) : -1
  return number >= 0 ? Math.min(mostReported, Math.ceil(number)) : undefined
}

/** A larger count is no report. */
const mostReported = 1_000_000

/** What the items of a response say was used; a container is used once, however often code runs in it. */
const itemKinds = lookupTable<BilledTool>({
  web_search_call: "webSearch",
  x_search_call: "webSearch",
  file_search_call: "fileSearch",
  collections_search_call: "fileSearch",
  code_interpreter_call: "codeExecution",
  shell_call: "codeExecution",
  image_generation_call: "imageGeneration"
})

/** Members of a usage in which providers count uses: Anthropic, OpenRouter, xAI. */
const countingMembers = ["server_tool_use", "server_tool_use_details", "server_side_tool_usage_details"] as const

/** The tool whose uses a member of these counts; undefined if it has no fee, or if its count is not what is billed. */
const countedTool = (name: string): BilledTool | undefined => {
  // Anthropic bills code by its container.
  if (/^code_(?:interpreter|execution)_calls$/.test(name)) return "codeExecution"
  if (/^(?:file|document|collections?|attachment)_search/.test(name)) return "fileSearch"
  if (name.startsWith("image_generation")) return "imageGeneration"
  return /search/.test(name) && !/^tool_search|_results?$/.test(name) ? "webSearch" : undefined
}

/** The kinds of tools that Groq's systems run by themselves. */
const executedKinds = lookupTable<BilledTool>({
  search: "webSearch",
  web_search: "webSearch",
  browser_search: "webSearch",
  python: "codeExecution",
  code_interpreter: "codeExecution"
})

/** Reads from an answer, in any dialect, how often its tools were used: of its events, or of the whole. */
export class ToolUseReader {
  private readonly free: ReadonlySet<BilledTool>
  private readonly searchesOnce: boolean
  /** Whether a shell of the request runs in a container of the provider's. */
  private readonly runsShell: boolean
  /** What the answer contains, by what tells two uses apart. */
  private readonly seen = new Map<string, BilledTool>()
  /** The provider's own counts, which go before what the answer contains. */
  private readonly counted = new Map<BilledTool, number>()
  private hasAnswered = false

  /** What a request declares decides only what is free of charge; every use that an answer reports counts. */
  constructor(asked: ProviderTools | undefined) {
    this.free = new Set(asked?.free)
    this.searchesOnce = asked?.searchesOnce === true
    this.runsShell = asked?.tools.some(({ billed }) => billed === "codeExecution") === true
  }

  /** The uses so far; undefined if there are none. */
  get uses(): ToolUses | undefined {
    const counts: { [Tool in BilledTool]?: number } = {}
    for (const tool of this.seen.values()) counts[tool] = (counts[tool] ?? 0) + 1
    if (this.searchesOnce && this.hasAnswered) counts.webSearch ??= 1
    for (const [tool, count] of this.counted) counts[tool] = count
    const used = billedTools.flatMap((tool) => {
      const count = counts[tool] ?? 0
      return count > 0 && !this.free.has(tool) ? [[tool, count] as const] : []
    })
    return used.length === 0 ? undefined : Object.fromEntries(used)
  }

  read(value: unknown): void {
    if (!isJson(value)) return
    const { candidates, choices, content, content_block: block, item, message, output, response, usage } = value
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
      for (const said of [choice.message, choice.delta]) {
        if (!isJson(said)) continue
        this.annotations(said.annotations)
        for (const one of listIn(said.executed_tools)) if (isJson(one)) this.executed(one)
      }
    }
    for (const candidate of listIn(candidates)) if (isJson(candidate)) this.grounding(candidate.groundingMetadata)
  }

  /** What a usage counts, under any of the names; Perplexity has a member of its own for searches. */
  private usage(usage: Json): void {
    const sums = new Map<BilledTool, number>()
    for (const member of countingMembers) {
      const counts = usage[member]
      if (!isJson(counts)) continue
      for (const name in counts) {
        const [tool, count] = [countedTool(name), countOf(counts[name])]
        if (tool !== undefined && count !== undefined) sums.set(tool, (sums.get(tool) ?? 0) + count)
      }
    }
    const queries = countOf(usage.num_search_queries)
    if (queries !== undefined) sums.set("webSearch", Math.max(sums.get("webSearch") ?? 0, queries))
    for (const [tool, count] of sums) this.counted.set(tool, Math.max(this.counted.get(tool) ?? 0, count))
  }

  private executed({ index, type }: Json): void {
    const tool = executedKinds[textIn(type)]
    if (tool !== undefined) this.seen.set(`executed ${textIn(index)} ${textIn(type)}`, tool)
  }

  /** Google's searches, each by its query. */
  private grounding(metadata: unknown): void {
    if (!isJson(metadata)) return
    for (const query of listIn(metadata.webSearchQueries)) this.seen.set(`query ${textIn(query)}`, "webSearch")
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
    // The caller runs a shell whose environment is its own.
    if (type === "shell_call" && container === undefined && !this.runsShell) return
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
