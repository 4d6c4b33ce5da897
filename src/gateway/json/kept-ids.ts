import { foldedName } from "../../kernel/json/json-scanner.ts"
import { isJson, type Json, listIn, parsedJson } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { type Change, edited, editsAt } from "./json-edits.ts"

/** The id of a thing that a provider keeps, and where it stands. */
export interface KeptId {
  readonly path: ReadonlyArray<string | number>
  readonly id: string
}

/** Which members called plain `id` are such ids; the other names are the same in every API. */
export interface IdScope {
  /** Whether that of the whole is one. */
  readonly root: boolean
  /** Lists whose elements have one. */
  readonly lists: ReadonlySet<string>
  /** Members whose object has an id of another kind; that of any other object is one. */
  readonly others: ReadonlySet<string>
}

/** Chat completions and messages: no endpoint takes the id of an answer, of a message or of a tool call. */
export const answerScope: IdScope = {
  root: false,
  lists: new Set(),
  others: new Set([
    "message",
    "content_block",
    "delta",
    "function",
    "item",
    "response",
    "user",
    "error",
    "usage",
    "x_groq",
    "prompt"
  ])
}

/** Messages whose ids a later request may send as `diagnostics.previous_message_id`. */
export const diagnosedScope: IdScope = {
  ...answerScope,
  root: true,
  others: new Set([...answerScope.others].filter((name) => name !== "message"))
}

/**
 * The Responses API, whose responses and items are stored. Its prompt templates are written by the owner of the account, and
 * hold nothing of a caller's.
 */
export const responsesScope: IdScope = {
  root: true,
  lists: new Set(["input", "output", "data"]),
  others: new Set(["delta", "function", "user", "error", "usage", "prompt"])
}

/** Names that end like an id's: those of calls, of users and other labels of callers, and of a browser that the caller runs. */
const otherIds = new Set(
  (
    "call_id tool_call_id tool_use_id tool_id caller_id tab_id download_id document_ids " +
    "user_id session_id request_id event_id client_id trace_id span_id parent_span_id " +
    "litellm_call_id litellm_session_id litellm_trace_id"
  ).split(" ")
)

/** Members whose text is an id, or whose object has one. */
const things = /^(?:container|conversation|vector_store|memory_store)s?$/

/** In a larger request the search for ids costs less than to look for their names in its text. */
const mostLookedAt = 65_536
/** What a name has that may be an id's, in any case; an escaped name may be any. */
const mayBeNamed = /_id|container|conversation|_store|"id"|\\u/i

/** Whether the JSON of a request may hold ids. */
export const mayHoldIds = (json: Uint8Array): boolean =>
  json.length > mostLookedAt ||
  mayBeNamed.test(Buffer.from(json.buffer, json.byteOffset, json.length).toString("latin1"))

/** JSON of the caller's, of a tool's or of a schema's own making, whose names mean nothing to a provider. */
const freeJson = new Set(
  (
    "metadata client_metadata attributes headers env trace logit_bias chat_template_kwargs " +
    "parameters input_schema output_schema inputschema outputschema schema guided_json input_examples " +
    "arguments structured_content structuredcontent _meta"
  ).split(" ")
)

type NameKind = "id" | "things" | "plain" | "free" | "map" | "list" | "other"

const readName = (written: string): NameKind => {
  // Some servers ignore the case of names.
  const name = foldedName(written)
  if (name === "id") return "plain"
  if (name === "input" || name === "annotations") return "list"
  if (name === "variables") return "map"
  if (freeJson.has(name)) return "free"
  if (things.test(name)) return "things"
  return /_ids?$/.test(name) && !otherIds.has(name) ? "id" : "other"
}

const known = new Map<string, NameKind>()
const mostKnown = 5000
const longestKnown = 64

const kindOf = (name: string): NameKind => {
  const before = known.get(name)
  if (before !== undefined) return before
  const kind = readName(name)
  if (known.size < mostKnown && name.length <= longestKnown) known.set(name, kind)
  return kind
}

/** Names of a vendor's own services and skills, which belong to no account. */
const vendorsOwn =
  /^(?:connector_(?:dropbox|gmail|googlecalendar|googledrive|microsoftteams|outlookcalendar|outlookemail|sharepoint)|pptx|xlsx|docx|pdf)$/

interface Step {
  readonly before: Step | undefined
  readonly key: string | number
}

interface Node {
  readonly value: unknown
  /** The folded name of the member that this is the value of, or an element of the value. */
  readonly name: string
  readonly isElement: boolean
  readonly at: Step | undefined
}

const pathOf = (step: Step | undefined): ReadonlyArray<string | number> => {
  const path: Array<string | number> = []
  for (let one = step; one !== undefined; one = one.before) path.unshift(one.key)
  return path
}

/**
 * The ids of what a provider keeps, in a request or an answer: found by the names of their members, wherever these stand,
 * so that a new kind of block needs no new code. Texts and free JSON are not searched.
 */
export const keptIds = (root: unknown, { lists, others, root: hasRoot }: IdScope): ReadonlyArray<KeptId> => {
  const found: Array<KeptId> = []
  // Without recursion, since an answer may be nested to any depth.
  const rest: Array<Node> = [{ value: root, name: "", isElement: false, at: undefined }]
  const add = (id: unknown, at: Step) => {
    if (typeof id === "string" && !vendorsOwn.test(id)) found.push({ path: pathOf(at), id })
  }
  const push = (value: unknown, name: string, isElement: boolean, at: Step) => {
    if (typeof value === "object" && value !== null) rest.push({ value, name, isElement, at })
  }
  for (let node = rest.pop(); node !== undefined; node = rest.pop()) {
    const { at: before, isElement, name: own, value } = node
    if (Array.isArray(value)) {
      // The last that is pushed is the first that is read.
      for (let key = value.length - 1; key >= 0; key--) push(value[key], own, true, { before, key })
      continue
    }
    const hasId = isElement ? lists.has(own) || things.test(own) : before === undefined ? hasRoot : !others.has(own)
    for (const key in value as Json) {
      const member = (value as Json)[key]
      if (member === null || (typeof member !== "object" && typeof member !== "string")) continue
      const kind = kindOf(key)
      if (kind === "other" && typeof member === "string") continue
      const at = { before, key }
      switch (kind) {
        case "free":
          break
        case "plain":
          if (hasId) add(member, at)
          push(member, "id", false, at)
          break
        case "list":
          // A list has items or citations; an object is what a tool is called with, or what its server says of it.
          if (Array.isArray(member)) push(member, foldedName(key), false, at)
          break
        case "map":
          if (isJson(member)) {
            for (const name in member) push(member[name], "", true, { before: at, key: name })
          }
          break
        case "id":
        case "things":
          add(member, at)
          for (const [index, one] of listIn(member).entries()) add(one, { before: at, key: index })
          push(member, foldedName(key), false, at)
          break
        case "other":
          push(member, foldedName(key), false, at)
      }
    }
  }
  return found
}

/** The text of an answer with other ids in the place of its own; the rest stays byte for byte. */
export type Renaming = (json: string, value: unknown) => string

/** One renaming after the other; either may be missing. */
export const renamingBoth = (first: Renaming | undefined, second: Renaming | undefined): Renaming | undefined => {
  if (first === undefined || second === undefined) return first ?? second
  return (json, value) => {
    const once = first(json, value)
    return second(once, once === json ? value : parsedJson(once))
  }
}

/** Renames the ids of what a provider keeps; `value` is the parsed text. */
export const renaming =
  (scope: IdScope, rename: (id: string) => string): Renaming =>
  (json, value) => {
    const changes = keptIds(value, scope).flatMap(({ id, path }): ReadonlyArray<Change> => {
      const other = id === "" ? id : rename(id)
      return other === id ? [] : [{ path, text: JSON.stringify(other) }]
    })
    if (changes.length === 0) return json
    const bytes = Buffer.from(json)
    return utf8Text(edited(bytes, editsAt(bytes, changes)))
  }
