import { isJson, type Json, listIn, textIn } from "../../kernel/json/parsed-json.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { type BoundTerms } from "./format.ts"
import { type FoundTools } from "./provider-tools.ts"
import { askedIn } from "./served-domain.ts"
import {
  asksForText,
  type BoundMembers,
  BoundWalk,
  escapedBytes,
  perMessage,
  perRequest,
  perTool,
  restoredResults,
  type TokenUpperBound,
  withTools
} from "./token-upper-bound.ts"

/** How the messages of a format are read for what they cost beyond their bytes. */
export interface MessageForm {
  /** Types of parts whose text stands in the request; a part of any other type may refer to something else. */
  readonly texts: ReadonlySet<string>
  /** Types of parts whose `content` is a result, which is read like a message. */
  readonly results?: RegExp
  /** Members of a message whose text stands in the request, where others may refer to something. */
  readonly members: ReadonlySet<string>
  /** Members of the request that are bounded. */
  readonly known: BoundMembers
  /** The tokens of the schema of a tool that the vendor defines. */
  toolTokens(type: string): number
  tools(body: Json, terms: BoundTerms): FoundTools
  /** Whether a model reads all of the request and summarizes it, besides answering. */
  compacts(body: Json): boolean
  /** In addition to the output limit. */
  extraOutputTokens(body: Json): number
  choices(body: Json): number
  /** The output limit that the caller set. */
  asked(body: Json): number | undefined
}

/** Results of tools contain no further results; vendors do not read deeper content. */
const deepest = 8

/** Members of parts that contain their text in the request itself, or that say how to read the part. */
const partMembers: ReadonlySet<string> = new Set(
  (
    "type text refusal thinking reasoning reasoning_content signature summary format id index title context detail " +
    "encrypted_content citations annotations cache_control prompt_cache_breakpoint"
  ).split(" ")
)
const plainText = /^(?:text|refusal|thinking|reasoning)$/

/** The messages of a request. */
class MessageWalk extends BoundWalk {
  private readonly form: MessageForm

  constructor(form: MessageForm, imageTokens: number) {
    super(imageTokens)
    this.form = form
  }

  message(message: unknown, at: Fault["path"]): void {
    if (!isJson(message)) return
    this.content(message.content, [...at, "content"])
    this.references(message, this.form.members, at)
    // Arguments may be written again.
    this.tokens += escapedBytes(message.tool_calls) + escapedBytes(message.function_call)
  }

  content(content: unknown, at: Fault["path"], depth = 0): void {
    if (depth > deepest) return this.refuse(at, "What is nested so deeply has no bound")
    if (isJson(content)) return this.part(content, at, depth)
    if (!Array.isArray(content)) return this.text(content, at)
    for (const [index, part] of content.entries()) {
      if (isJson(part)) this.part(part, [...at, index], depth)
      else if (Array.isArray(part)) this.refuseType([...at, index], {})
      else this.text(part, [...at, index])
    }
  }

  private part(part: Json, at: Fault["path"], depth: number): void {
    const type = textIn(part.type)
    switch (type) {
      case "image_url":
        this.references(part, partMembers, at, type)
        return this.imageUrl(part.image_url, at)
      case "file":
        this.references(part, partMembers, at, type)
        return this.fileOf(isJson(part.file) ? part.file : {}, at)
      case "image":
        this.references(part, partMembers, at, "source")
        return this.imageOf(part.source, at)
      case "document": {
        const { source } = part
        this.references(part, partMembers, at, "source")
        if (isJson(source) && source.type === "content") return this.content(source.content, at, depth + 1)
        return this.source(source, at)
      }
    }
    const { results, texts } = this.form
    if (plainText.test(type)) {
      this.references(part, partMembers, at)
      this.text(part.text, at)
    }
    if (type.endsWith("tool_use")) this.tokens += escapedBytes(part.input)
    if (texts.has(type)) return
    if (results?.test(type) === true) return this.content(part.content, [...at, "content"], depth + 1)
    this.refuseType(at, part)
  }
}

/** What a request reads besides its text for the tools that it declares. */
const toolTokensOf = (body: Json, form: MessageForm): number => {
  const given = listIn(body.tools)
  const functions = listIn(body.functions)
  if (given.length + functions.length === 0) return 0
  return given.reduce<number>(
    (sum, tool) => {
      const type = isJson(tool) && typeof tool.type === "string" ? tool.type : "custom"
      return sum + (type === "custom" || type === "function" ? perTool : form.toolTokens(type))
    },
    withTools + perTool * functions.length
  )
}

/** What a translation adds for the calls in messages of either format that have no result. */
const callsIn = (messages: ReadonlyArray<unknown>): number => {
  const calls: Array<unknown> = []
  const answered: Array<unknown> = []
  for (const message of messages) {
    if (!isJson(message)) continue
    for (const call of listIn(message.tool_calls)) if (isJson(call)) calls.push(call.id)
    if (message.tool_call_id !== undefined) answered.push(message.tool_call_id)
    for (const block of listIn(message.content)) {
      if (!isJson(block)) continue
      if (block.type === "tool_use") calls.push(block.id)
      if (block.type === "tool_result") answered.push(block.tool_use_id)
    }
  }
  return restoredResults(calls, answered)
}

/** The maximum usage of a request with messages. */
export const messageBound = (body: Json, terms: BoundTerms, form: MessageForm): TokenUpperBound => {
  const walk = new MessageWalk(form, terms.imageTokens)
  const messages = listIn(body.messages)
  for (const [index, message] of messages.entries()) walk.message(message, ["messages", index])
  walk.content(body.system, ["system"])
  walk.members(body, form.known)
  // What skills add to the prompt is kept by the provider, and their latest version may change.
  if (isJson(body.container) && listIn(body.container.skills).length > 0) walk.remotely(["container"], "fetched")
  walk.modalities(body.modalities, ["modalities"])
  const { tools, unbounded } = form.tools(body, terms)
  for (const fault of unbounded) walk.unbounded.push(fault)
  const compacts = form.compacts(body)
  const elsewhere = walk.requireContext(terms.contextTokens, tools)
  return {
    inputTokens:
      terms.bodyBytes -
      walk.payloadBytes +
      walk.tokens +
      toolTokensOf(body, form) +
      callsIn(messages) +
      escapedBytes(body.tools) +
      escapedBytes(body.functions) +
      perRequest +
      perMessage * messages.length,
    mediaTokens: walk.mediaTokens,
    elsewhere,
    readings: compacts ? 2 : 1,
    extraOutputTokens: form.extraOutputTokens(body),
    choices: form.choices(body),
    tools,
    askedOutputTokens: form.asked(body),
    asksFor: askedIn(body),
    writesText: asksForText(body.modalities),
    unbounded: walk.unbounded
  }
}

/** Whether edits that the request asks for summarize it; other edits shorten the model's input. */
export const compactsByEdits = ({ context_management: managed }: Json): boolean =>
  listIn(isJson(managed) ? managed.edits : undefined).some(
    (edit) => isJson(edit) && textIn(edit.type).startsWith("compact")
  )
