import { type Json } from "../../kernel/json/parsed-json.ts"
import { media, type MediaTokens, type TokenUsage } from "./domain.ts"

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

const at = (usage: unknown, place: Place): unknown => {
  let value = usage
  for (const name of place) value = member(value, name)
  return value
}

/** The members of a usage that may count each class of tokens, under all their names. */
export interface UsageTable {
  readonly input: ReadonlyArray<Place>
  readonly output: ReadonlyArray<Place>
  readonly total: ReadonlyArray<Place>
  readonly cached: ReadonlyArray<Place>
  readonly cacheWrite: ReadonlyArray<Place>
  readonly reasoning: ReadonlyArray<Place>
  /** Of all input that is audio, images and video; of the cached part of it; and of the output. */
  readonly mediaInput: ReadonlyArray<ReadonlyArray<Place>>
  readonly mediaCached: ReadonlyArray<ReadonlyArray<Place>>
  readonly mediaOutput: ReadonlyArray<ReadonlyArray<Place>>
}

const maxTokens = 2_147_483_647

/** Reads the numbers of a report, and notices where they contradict each other. */
export class Counts {
  isContradictory = false
  private readonly usage: unknown

  constructor(usage: unknown) {
    this.usage = usage
  }

  /** The largest of the numbers at some places; zero counts as not reported. */
  largest(places: ReadonlyArray<Place>): number {
    let largest = 0
    for (const place of places) {
      const value = at(this.usage, place)
      if (value === undefined) continue
      const found = count(value)
      if (found !== 0 && largest !== 0 && found !== largest) this.isContradictory = true
      if (found > largest) largest = found
    }
    return largest
  }

  /** A part of a whole: no larger than it, and nothing where it is more than there can be. */
  part(places: ReadonlyArray<Place>, whole: number): number {
    const found = this.largest(places)
    if (found <= whole) return found
    this.isContradictory = true
    return found > maxTokens ? 0 : whole
  }

  has(places: ReadonlyArray<Place>): boolean {
    return places.some((place) => isCount(at(this.usage, place)))
  }
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
export const inclusiveUsage = (usage: unknown, table: UsageTable): TokenUsage => {
  const counts = new Counts(usage)
  const completion = counts.largest(table.output)
  const total = counts.largest(table.total)
  const prompt = counts.has(table.input) ? counts.largest(table.input) : Math.max(0, total - completion)
  const known = (places: ReadonlyArray<Place>) => Math.min(maxTokens, counts.largest(places))
  const mediaIn = table.mediaInput.map(known)
  const beyond = total - prompt - completion
  const isBeside = () => {
    if (counts.largest(table.reasoning) === beyond) return false
    const stored = counts.largest(table.cached) + counts.largest(table.cacheWrite)
    return sumOf(mediaIn) === beyond || (stored === beyond && stored > prompt)
  }
  const inputTokens = beyond > 0 && isBeside() ? prompt + beyond : prompt
  const outputTokens = Math.max(completion, total - inputTokens)
  if (beyond < 0 && total > 0) counts.isContradictory = true
  // Where both together exceed the input, what costs more counts first.
  const cacheWriteTokens = counts.part(table.cacheWrite, inputTokens)
  const cachedInputTokens = counts.part(table.cached, inputTokens - cacheWriteTokens)
  const reasoning = counts.part(table.reasoning, outputTokens)
  const read: TokenUsage = {
    inputTokens,
    outputTokens,
    cachedInputTokens,
    cacheWriteTokens,
    cacheWrite1hTokens: 0,
    reasoningTokens: Math.max(reasoning, outputTokens - completion)
  }
  return withMedia(read, counts, mediaIn, table.mediaCached.map(known), table.mediaOutput.map(known))
}

/** A usage with its media, and with whether its report contradicts itself. */
export const withMedia = (
  read: TokenUsage,
  { isContradictory }: Pick<Counts, "isContradictory">,
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
 * keep their value, as do those whose report has another type, and the input does in a report that has none.
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
