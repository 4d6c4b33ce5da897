import { isJson, listIn, type Json, textIn } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { type Edit, type Place, placesIn } from "../../json/json-edits.ts"
import {
  type FoundTools,
  foundTools,
  limitOf,
  maxSteps,
  noTerms,
  type PlacedTool,
  ToolFinder,
  type ToolTerms
} from "../provider-tools.ts"

/** Anthropic's tools, by the names that come before the date of their version. */
const messagesTool = /^(web_search|web_fetch|code_execution)_(\d{8})$|^tool_search_tool_(?:regex|bm25)(?:_\d{8})?$/

/** From these versions on, code runs free of charge beside a web search or a web fetch. */
const firstWithFreeCode = 20_260_209

/** Tools that Anthropic defines and the caller runs. */
export const runByMessagesCaller = /^(?:bash|text_editor|computer|memory)_\d{8}$|^(?:browser|computer)_toolset_\d{8}$/

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

const perStep = { billed: undefined, maxUses: maxSteps, takesLimit: false, isPerStep: true } as const

const versionOf = ({ type }: Json) => messagesTool.exec(textIn(type))

/**
 * The provider-run tools of a request in Anthropic's form. A chat completion may have them, too (`isChat`); there a tool
 * without a type is the caller's if it has a function or a name.
 */
export const messagesTools = (body: Json, terms: ToolTerms, isChat = false): FoundTools => {
  const found = new ToolFinder(terms)
  const placed = [...found.listed(body.tools, ["tools"]), ...toolsAdded(body.messages)]
  const runsFreeCode = placed.some(([tool]) => {
    const [, name, version] = versionOf(tool) ?? []
    return name?.startsWith("web_") === true && Number(version) >= firstWithFreeCode
  })
  for (const [tool, path] of placed) {
    // A tool without a type is the caller's own: Anthropic's by its name, OpenAI's by its function.
    const isOwn = !isChat || isJson(tool.function) || typeof tool.name === "string"
    const type = tool.type === undefined ? (isOwn ? "custom" : "") : textIn(tool.type)
    const match = versionOf(tool)
    if (match === null) {
      const isCallers = type === "custom" || type === "function" || runByMessagesCaller.test(type)
      // The servers of a toolset are counted below; a reference names a tool of this request.
      if (isCallers && !type.includes("toolset")) found.own(tool, path)
      else if (!isCallers && type !== "mcp_toolset" && !toolReferences.has(type)) found.unknown(path, type)
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
  if (isChat) for (const [tool, path] of found.listed(body.functions, ["functions"])) found.own(tool, path)
  if (!Array.isArray(body.mcp_servers ?? [])) found.refuse(["mcp_servers"], "Only a list of servers has a bound")
  for (const [index, server] of listIn(body.mcp_servers).entries()) {
    found.mcp(["mcp_servers", index], isJson(server) ? server.url : undefined, perStep)
  }
  const searches =
    (isChat && (body.web_search_options ?? null) !== null) ||
    terms.models.some(({ traits }) => traits.searches === "once")
  if (searches) {
    found.tools.push({ billed: "webSearch", path: ["web_search_options"], maxUses: 1, takesLimit: false })
  }
  if (found.tools.length === 0) return foundTools(found, undefined, terms)
  const tools = {
    tools: found.tools,
    maxCalls: undefined,
    takesMaxCalls: false,
    maxSteps,
    ...(runsFreeCode ? { free: ["codeExecution"] as const } : {}),
    ...(searches ? { searchesOnce: true } : {})
  }
  return foundTools(found, tools, terms)
}

const unlimitedTools = (body: Json) =>
  messagesTools(body, noTerms).tools?.tools.filter(({ maxUses, takesLimit }) => takesLimit && maxUses === undefined) ??
  []

/** A translated request whose tools have the limit that they were admitted with. */
export const withToolLimit = (body: Json, limit: number): Json => {
  const places = new Set(unlimitedTools(body).map(({ path }) => path[1]))
  if (places.size === 0) return body
  const limited = (tool: unknown, index: number) =>
    places.has(index) && isJson(tool) ? Object.assign({}, tool, { max_uses: limit }) : tool
  return { ...body, tools: listIn(body.tools).map(limited) }
}

/** The place of a value by the path to it. */
const placeAt = (json: Uint8Array, path: Fault["path"]): Place | undefined =>
  path.reduce<Place | undefined>((at, step, depth) => {
    if (depth > 0 && at === undefined) return undefined
    const places = placesIn(json, at?.value ?? 0)
    return typeof step === "number" ? places[step] : places.findLast(({ name }) => name === step)
  }, undefined)

/** Limits the uses of each of Anthropic's tools that takes a limit and has none, wherever it stands. */
export const toolLimitEdits = (json: Uint8Array, body: Json, limit: number): ReadonlyArray<Edit> =>
  unlimitedTools(body).flatMap(({ path }): ReadonlyArray<Edit> => {
    const tool = placeAt(json, path)
    if (tool === undefined) return []
    const text = `"max_uses":${limit}`
    const given = placesIn(json, tool.value).find(({ name }) => name === "max_uses")
    return given === undefined
      ? [{ start: tool.end - 1, end: tool.end - 1, text: `,${text}` }]
      : [{ start: given.start, end: given.end, text }]
  })
