import { isJson, type Json, listIn, textIn } from "../../../../kernel/json/parsed-json.ts"
import { type Edit, type Place, placesIn } from "../../../json/json-edits.ts"
import { type FormatTarget, type SentLimits } from "../../format.ts"

/** How long what is marked stays in Anthropic's cache; undefined for five minutes. */
type Life = "1h" | undefined

type Path = ReadonlyArray<string | number>

/** The shortest prompt that is cached by models of which nothing else is known. */
const usualMinTokens = 4096
/** Bytes of a token, as estimates have them: a mark on a shorter prompt has no effect, and costs nothing. */
const bytesPerToken = 3
/** A mark is found by later requests from up to 20 blocks after it (Anthropic, "Prompt caching"). */
const longestGap = 18
const rollingMarks = 2

/** Blocks that take a mark; thoughts do not. */
const markable: ReadonlySet<unknown> = new Set([
  "text",
  "image",
  "document",
  "tool_use",
  "tool_result",
  "search_result"
])

const hasWords = (text: string): boolean => text.trim() !== ""

const takesMark = (block: unknown): boolean =>
  typeof block === "string"
    ? hasWords(block)
    : isJson(block) &&
      markable.has(block.type) &&
      (block.type !== "text" || hasWords(textIn(block.text))) &&
      // A second one would be another member of the same name.
      !Object.hasOwn(block, "cache_control")

const takesMarkAsTool = (tool: Json): boolean =>
  typeof tool.name === "string" && tool.defer_loading !== true && !Object.hasOwn(tool, "cache_control")

/** About as many bytes as a value has in JSON, without writing it. */
const sizeOf = (value: unknown): number => {
  if (typeof value === "string") return value.length
  if (Array.isArray(value)) return value.reduce((sum: number, one) => sum + sizeOf(one), 2)
  if (!isJson(value)) return 4
  let sum = 2
  for (const name in value) sum += name.length + 4 + sizeOf(value[name])
  return sum
}

const isMarked = (value: unknown): boolean => isJson(value) && (value.cache_control ?? null) !== null

/** Whether a message, a block or what a block contains is marked: results and documents have blocks of their own. */
const hasMarksWithin = (value: unknown): boolean =>
  Array.isArray(value)
    ? value.some(hasMarksWithin)
    : isJson(value) &&
      (isMarked(value) ||
        hasMarksWithin(value.content) ||
        (isJson(value.source) && hasMarksWithin(value.source.content)))

/** Whether a caller marks a part of the request itself. */
const hasMarks = (body: Json): boolean =>
  isMarked(body) || [body.tools, body.system, body.messages].some(hasMarksWithin)

interface Part {
  readonly path: Path
  readonly value: unknown
}

/** The elements of a list, or a text in its place. */
const partsOf = (content: unknown, path: Path): ReadonlyArray<Part> =>
  typeof content === "string"
    ? [{ path, value: content }]
    : listIn(content).map((value, index) => ({ path: [...path, index], value }))

/**
 * The places of marks in a request without marks: the last block of the system prompt, or else the last tool; the last block,
 * and two before it, so near to each other that the next requests find one of them. None before the shortest prompt that the
 * model caches, and none in a single question, since writing into the cache costs more than reading.
 */
export const cacheMarks = (body: Json, minTokens: number, isOfSession: boolean): ReadonlyArray<Path> => {
  const tools = partsOf(body.tools, ["tools"])
  const system = partsOf(body.system, ["system"])
  const messages = listIn(body.messages)
  const goesOn = tools.length > 0 || isOfSession || messages.some((one) => isJson(one) && one.role === "assistant")
  if (!goesOn || hasMarks(body)) return []
  let left = minTokens * bytesPerToken
  for (const { value } of [...tools, ...system]) left -= left > 0 ? sizeOf(value) : 0
  const fixed =
    left > 0
      ? undefined
      : (system.findLast(({ value }) => takesMark(value)) ??
        tools.findLast(({ value }) => isJson(value) && takesMarkAsTool(value)))
  const blocks = messages.flatMap((message, index) =>
    isJson(message) ? partsOf(message.content, ["messages", index, "content"]) : []
  )
  let first = 0
  while (left > 0 && first < blocks.length) left -= sizeOf(blocks[first++]?.value)
  if (left > 0) return []
  const from = Math.max(0, first - 1)
  const marks: Array<Path> = fixed === undefined ? [] : [fixed.path]
  let at = blocks.findLastIndex(({ value }, index) => index >= from && takesMark(value))
  for (let mark = 0; at >= from && mark <= rollingMarks; mark++) {
    marks.push(blocks[at]!.path)
    const nearest = Math.max(from, at - longestGap)
    const before = blocks.slice(nearest, at).findIndex(({ value }) => takesMark(value))
    at = before < 0 ? -1 : nearest + before
  }
  return marks
}

/** The marks of a request for a target; `usual` is what applies where its model's configuration says nothing. */
const marksFor = (
  body: Json,
  { promptCache, traits }: FormatTarget,
  { cacheKey }: Pick<SentLimits, "cacheKey">,
  usual: "auto" | "off"
): { readonly marks: ReadonlyArray<Path>; readonly control: Json } => {
  const asked = promptCache ?? usual
  const life: Life = asked === "1h" ? "1h" : undefined
  return {
    marks: asked === "off" ? [] : cacheMarks(body, traits.minCachedTokens ?? usualMinTokens, cacheKey !== undefined),
    control: { type: "ephemeral", ...(life === undefined ? {} : { ttl: life }) }
  }
}

/** A value in which the one at a path is another. */
const changedAt = (value: unknown, [step, ...rest]: Path, change: (value: unknown) => unknown): unknown => {
  if (step === undefined) return change(value)
  if (Array.isArray(value)) return value.with(Number(step), changedAt(value[Number(step)], rest, change))
  return isJson(value) ? { ...value, [step]: changedAt(value[step], rest, change) } : value
}

/** A translated request with marks for Anthropic's cache, which callers of other formats cannot ask for. */
export const withCacheMarks = (body: Json, target: FormatTarget, limits: SentLimits): Json => {
  const { control, marks } = marksFor(body, target, limits, "auto")
  const marked = (value: unknown) =>
    typeof value === "string"
      ? [{ type: "text", text: value, cache_control: control }]
      : Object.assign({}, value, { cache_control: control })
  return marks.reduce((changed, path) => changedAt(changed, path, marked) as Json, body)
}

/** The same for a request in Anthropic's own format, where the model's configuration asks for marks. */
export const cacheMarkEdits = (
  bytes: Uint8Array,
  body: Json,
  target: FormatTarget,
  limits: SentLimits
): ReadonlyArray<Edit> => {
  const { control, marks } = marksFor(body, target, limits, "off")
  const member = `"cache_control":${JSON.stringify(control)}`
  const known = new Map<string, ReadonlyArray<Place>>()
  const within = (path: Path, from: number): ReadonlyArray<Place> => {
    const key = path.join(" ")
    const found = known.get(key) ?? placesIn(bytes, from)
    known.set(key, found)
    return found
  }
  return marks.flatMap((path): ReadonlyArray<Edit> => {
    let place: Place | undefined
    for (const [depth, step] of path.entries()) {
      const places = within(path.slice(0, depth), place?.value ?? 0)
      place = typeof step === "number" ? places[step] : places.findLast(({ name }) => name === step)
      if (place === undefined) return []
    }
    if (place === undefined) return []
    const { end, value } = place
    return bytes[value] === quote
      ? [
          { start: value, end: value, text: `[{"type":"text","text":` },
          { start: end, end, text: `,${member}}]` }
        ]
      : [{ start: end - 1, end: end - 1, text: `,${member}` }]
  })
}

const quote = 0x22
