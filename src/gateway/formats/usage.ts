import { isJson, type Json } from "../../kernel/json/parsed-json.ts"
import { media, type MediaTokens, type Medium, type TokenUsage } from "./domain.ts"

/** Whether a value is a number; some providers write it as a string. */
export const isCount = (value: unknown): boolean =>
  typeof value === "number" || (typeof value === "string" && value.trim() !== "" && !Number.isNaN(Number(value)))

/** A number of tokens; zero where there is none. */
export const count = (value: unknown): number => {
  const number = isCount(value) ? Number(value) : 0
  return number > 0 ? Math.ceil(number) : 0
}

/** The input tokens that are reported, or else what the total has besides the output. */
export const inputOf = (reported: unknown, totalTokens: number, outputTokens: number): number =>
  isCount(reported) ? count(reported) : Math.max(0, totalTokens - outputTokens)

export const member = (value: unknown, name: string): unknown =>
  typeof value === "object" && value !== null ? (value as Readonly<Record<string, unknown>>)[name] : undefined

/** The path of a number in a report. */
type Place = readonly [name: string, ...names: ReadonlyArray<string>]

/** The members of a report that may count each class of tokens, under all their names. */
export type UsageTable<Class extends string> = { readonly [Name in Class]: ReadonlyArray<Place> }

/** The classes of a usage whose input includes the cached tokens. */
export type InclusiveClass =
  | "input"
  | "output"
  | "total"
  | "cached"
  | "cacheWrite"
  | "reasoning"
  | `${Medium}${"Input" | "Cached" | "Output"}`

interface NamedMember<Class> {
  readonly classes: Array<Class>
  readonly within: NamedMembers<Class>
}
type NamedMembers<Class> = Map<string, NamedMember<Class>>

/** What a table says of each member of a report, so that a report is read once, however many names are known. */
const byName = <Class extends string>(table: UsageTable<Class>): NamedMembers<Class> => {
  const root: NamedMembers<Class> = new Map()
  for (const [name, places] of Object.entries<ReadonlyArray<Place>>(table)) {
    for (const place of places) {
      let members = root
      let last: NamedMember<Class> | undefined
      for (const step of place) {
        last = members.get(step) ?? { classes: [], within: new Map() }
        members.set(step, last)
        members = last.within
      }
      last?.classes.push(name as Class)
    }
  }
  return root
}

const maxTokens = 2_147_483_647

/** The numbers of a report by their class, and whether they contradict each other. */
export class Counts<Class extends string> {
  isContradictory = false
  private readonly found = new Map<Class, number>()

  constructor(usage: unknown, members: NamedMembers<Class>) {
    this.read(usage, members)
  }

  private read(value: unknown, members: NamedMembers<Class>): void {
    if (!isJson(value)) return
    for (const name in value) {
      const known = members.get(name)
      if (known === undefined) continue
      const counted = value[name]
      for (const one of known.classes) if (isCount(counted)) this.note(one, count(counted))
      if (known.within.size > 0) this.read(counted, known.within)
    }
  }

  private note(one: Class, tokens: number): void {
    const before = this.found.get(one)
    if (before !== undefined && before !== 0 && tokens !== 0 && before !== tokens) this.isContradictory = true
    if (before === undefined || tokens > before) this.found.set(one, tokens)
  }

  /** The largest of the numbers of a class; zero counts as not reported. */
  largest(of: Class): number {
    return this.found.get(of) ?? 0
  }

  /** A part of a whole: no larger than it, and nothing where it is more than there can be. */
  part(of: Class, whole: number): number {
    const found = this.largest(of)
    if (found <= whole) return found
    this.isContradictory = true
    return found > maxTokens ? 0 : whole
  }

  has(one: Class): boolean {
    return this.found.has(one)
  }
}

/** A reader of the numbers of reports, by the table of their members. */
export const countsBy = <Class extends string>(table: UsageTable<Class>): ((usage: unknown) => Counts<Class>) => {
  const members = byName(table)
  return (usage) => new Counts(usage, members)
}

/** The media within a usage: what is read for the first time takes precedence, since it costs the most. */
export const mediaWithin = (
  { cachedInputTokens, cacheWriteTokens, inputTokens, outputTokens }: TokenUsage,
  all: ReadonlyArray<number>,
  cached: ReadonlyArray<number>,
  written: ReadonlyArray<number>
): MediaTokens | undefined => {
  const found: { -readonly [Class in keyof MediaTokens]: number } = {}
  let fresh = inputTokens - cachedInputTokens - cacheWriteTokens
  let stored = cachedInputTokens
  let output = outputTokens
  for (const [index, medium] of media.entries()) {
    const known = Math.min(stored, cached[index] ?? 0)
    const read = Math.min(fresh, Math.max(0, (all[index] ?? 0) - known))
    const again = Math.min(stored, Math.max(known, (all[index] ?? 0) - read))
    const wrote = Math.min(output, written[index] ?? 0)
    fresh -= read
    stored -= again
    output -= wrote
    if (read > 0) found[`${medium}Input`] = read
    if (again > 0) found[`${medium}CacheRead`] = again
    if (wrote > 0) found[`${medium}Output`] = wrote
  }
  return fresh === inputTokens - cachedInputTokens - cacheWriteTokens &&
    stored === cachedInputTokens &&
    output === outputTokens
    ? undefined
    : found
}

const sumOf = (numbers: ReadonlyArray<number>): number => numbers.reduce((sum, one) => sum + one, 0)

/**
 * A usage whose input includes what is cached and of media, and whose output includes reasoning. Where the total has more
 * than both, the rest is what some vendors count beside them: reasoning (xAI, Google), or audio (Mistral) and what is cached,
 * if it is just as much.
 */
export const inclusiveUsage = (counts: Counts<InclusiveClass>): TokenUsage => {
  const completion = counts.largest("output")
  const total = counts.largest("total")
  const prompt = counts.has("input") ? counts.largest("input") : Math.max(0, total - completion)
  const mediaOf = (part: "Input" | "Cached" | "Output") =>
    media.map((medium) => Math.min(maxTokens, counts.largest(`${medium}${part}`)))
  const mediaIn = mediaOf("Input")
  const beyond = total - prompt - completion
  const isBeside = () => {
    if (counts.largest("reasoning") === beyond) return false
    const stored = counts.largest("cached") + counts.largest("cacheWrite")
    return sumOf(mediaIn) === beyond || (stored === beyond && stored > prompt)
  }
  const inputTokens = beyond > 0 && isBeside() ? prompt + beyond : prompt
  const outputTokens = Math.max(completion, total - inputTokens)
  if (beyond < 0 && total > 0) counts.isContradictory = true
  // Where both together exceed the input, what costs more counts first.
  const cacheWriteTokens = counts.part("cacheWrite", inputTokens)
  const cachedInputTokens = counts.part("cached", inputTokens - cacheWriteTokens)
  const reasoning = counts.part("reasoning", outputTokens)
  const read: TokenUsage = {
    inputTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteTokens,
    cacheWrite1hTokens: 0,
    reasoningTokens: Math.max(reasoning, outputTokens - completion)
  }
  return withMedia(read, counts, mediaIn, mediaOf("Cached"), mediaOf("Output"))
}

/** A usage with its media, and with whether its report contradicts itself. */
export const withMedia = (
  read: TokenUsage,
  { isContradictory }: Pick<Counts<string>, "isContradictory">,
  all: ReadonlyArray<number>,
  cached: ReadonlyArray<number>,
  written: ReadonlyArray<number>
): TokenUsage => {
  const isText = sumOf(all) + sumOf(cached) + sumOf(written) === 0
  if (isText && !isContradictory) return read
  const within = isText ? undefined : mediaWithin(read, all, cached, written)
  const wrote = (within?.audioOutput ?? 0) + (within?.imageOutput ?? 0) + (within?.videoOutput ?? 0)
  return {
    ...read,
    reasoningTokens: Math.min(read.reasoningTokens, read.outputTokens - wrote),
    ...(within === undefined ? {} : { media: within }),
    ...(isContradictory ? { isContradictory } : {})
  }
}

/** The larger of two reports of one usage. */
export const largerUsage = (one: TokenUsage | undefined, other: TokenUsage): TokenUsage =>
  one !== undefined && one.inputTokens + one.outputTokens > other.inputTokens + other.outputTokens ? one : other

const inputs = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]

/**
 * The usage of a streamed message of Anthropic's so far. Reports are cumulative, so their members overwrite earlier ones; omitted members
 * keep their value, as do those whose report has another type; a report without input tokens leaves the earlier input as it was.
 */
export const laterUsage = (before: Json, report: Json): Json => {
  const tellsInput = inputs.some((name) => count(report[name]) > 0)
  const given = Object.entries(report).filter(
    ([name, value]) =>
      value !== null &&
      (name.endsWith("_tokens") ? isCount(value) : typeof value === typeof (before[name] ?? value)) &&
      (tellsInput || !inputs.includes(name))
  )
  return { ...before, ...Object.fromEntries(given) }
}

/** A usage that can be charged: zero tokens, or more than any model accepts, counts as not reported. */
export const plausibleUsage = (usage: TokenUsage | undefined): TokenUsage | undefined => {
  if (usage === undefined) return undefined
  const { inputTokens, outputTokens } = usage
  return inputTokens + outputTokens > 0 && Math.max(inputTokens, outputTokens) <= maxTokens ? usage : undefined
}
