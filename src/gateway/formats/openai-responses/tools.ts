import { isJson, listIn, type Json, textIn } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { type BilledTool } from "../domain.ts"
import { type FoundTools, foundTools, limitOf, ToolFinder, type ToolTerms } from "../provider-tools.ts"

/** Covers an image that a tool returns, for every model: OpenAI's dearest count of its tiles. */
const imageResultTokens = 48_169

/** Tools of the Responses API that the caller runs. */
const runByResponsesCaller: ReadonlySet<string> = new Set(
  ["function", "custom", "namespace", "local_shell", "apply_patch", "computer", "computer_use_preview"].concat([
    "computer-preview",
    "computer_use"
  ])
)

/** The tools of the Responses API that OpenAI runs; some names end in the date of their version. */
const responsesTool = /^(?:(web_search)(?:_preview)?(?:_[\d_]+)?|file_search|code_interpreter|image_generation)$/

const responsesBilled = (type: string): BilledTool | undefined => {
  if (responsesTool.exec(type)?.[1] !== undefined) return "webSearch"
  return type === "file_search" ? "fileSearch" : type === "image_generation" ? "imageGeneration" : undefined
}

const smallest = new Set<unknown>([undefined, null, "1g"])

/** Whether a container is of the size whose fee is known; a larger one costs more. */
const isSmallest = (container: unknown): boolean => !isJson(container) || smallest.has(container.memory_limit)

/** The tools of a request that its provider runs: its own, and those that its items add. */
export const responsesTools = (body: Json, terms: ToolTerms): FoundTools => {
  const found = new ToolFinder(terms)
  const usual = { maxUses: undefined, takesLimit: false }
  const container = (path: Fault["path"], where: unknown) => {
    if (isSmallest(where)) found.tools.push({ ...usual, billed: "codeExecution", path })
    else found.refuse(path, "The fee of a container of more than 1 GB is not known")
  }
  const placed = [
    ...found.listed(body.tools, ["tools"]),
    ...listIn(body.input).flatMap((item, index) =>
      isJson(item) && item.type !== "mcp_list_tools" ? found.listed(item.tools, ["input", index, "tools"]) : []
    )
  ]
  for (const [tool, path] of placed) {
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
    } else if (runByResponsesCaller.has(type)) found.own(tool, path)
    else found.unknown(path, type)
  }
  const { maxDefaultUses, tools } = found
  if (tools.length === 0) return foundTools(found, undefined, terms)
  return foundTools(
    found,
    { tools, maxCalls: limitOf(body.max_tool_calls), takesMaxCalls: true, maxDefaultUses },
    terms
  )
}
