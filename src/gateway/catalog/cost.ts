import {
  billedTools,
  media,
  type MediaClass,
  type OtherModel,
  type Served,
  type TokenUsage,
  type ToolUses,
  type UsageUnits
} from "../formats/domain.ts"
import {
  type Ceiling,
  type GpuHour,
  type PriceFactor,
  type Prices,
  type Rates,
  type RateSet,
  type RateTable,
  servedWhen,
  serviceKey,
  type ServiceRates,
  type ToolFees,
  type UnitRates
} from "./rate-domain.ts"
import { unitCost, unitRatesOf } from "./unit-costs.ts"

const tokensPerRate = 1_000_000n

type Classes = Omit<Prices, "longContext" | "toolUses" | "factors" | "gpuHour" | keyof UnitRates>

/** The classes of media, each with the class of text that contains it. */
const mediaClasses = media.flatMap((medium) => [
  { name: `${medium}Input`, whole: "input" } as const,
  { name: `${medium}CacheRead`, whole: "cacheRead" } as const,
  { name: `${medium}Output`, whole: "output" } as const
])

/** The rates of media that have a price; `least` has those that prices of another service do not say. */
const mediaRates = (prices: Classes, rates: Rates, least?: Rates): Partial<Record<MediaClass, bigint>> => {
  const found: Partial<Record<MediaClass, bigint>> = {}
  for (const { name, whole } of mediaClasses) {
    const medium = name.slice(0, 5)
    // What is cached of a medium is a part of what is read of it.
    const own =
      prices[`${name}UsdPerMTok`] ??
      (whole === "cacheRead" ? prices[`${medium}InputUsdPerMTok` as "audioInputUsdPerMTok"] : undefined)
    const usual = least?.[name]
    if (own !== undefined) found[name] = own
    else if (usual !== undefined) found[name] = dearest(usual, rates[whole])
  }
  return found
}

/** What is known of prices that do not say everything. */
interface PriceRules {
  /** Whether what is written into a cache costs more than input, as Anthropic has it ("Prompt caching", Pricing). */
  readonly writesCostMore: boolean
}

const ratesOf = (prices: Classes, { writesCostMore }: PriceRules, least?: Rates): Rates => {
  const input = prices.inputUsdPerMTok ?? 0n
  const output = prices.outputUsdPerMTok ?? 0n
  const cacheWrite = prices.cacheWriteUsdPerMTok ?? (writesCostMore ? (5n * input + 3n) / 4n : input)
  const isWritePriced = writesCostMore || prices.cacheWriteUsdPerMTok !== undefined
  const rates = {
    input,
    output,
    cacheRead: prices.cacheReadUsdPerMTok ?? input,
    cacheWrite,
    // Only Anthropic sells one-hour cache writes; without a known price they cost twice the input.
    cacheWrite1h: prices.cacheWrite1hUsdPerMTok ?? (isWritePriced ? 2n * input : input),
    reasoning: prices.reasoningUsdPerMTok ?? output
  }
  return { ...rates, ...mediaRates(prices, rates, least) }
}

const dearest = (...rates: ReadonlyArray<bigint>): bigint => rates.reduce((a, b) => (a > b ? a : b))

const ceilingOf = (aboveTokens: number, rates: Rates): Ceiling => {
  const input = dearest(rates.input, rates.cacheRead, rates.cacheWrite, rates.cacheWrite1h)
  const output = dearest(rates.output, rates.reasoning)
  const ofMedia = (isOutput: boolean) =>
    mediaClasses.flatMap(({ name, whole }) => ((whole === "output") === isOutput ? [rates[name] ?? 0n] : []))
  return {
    aboveTokens,
    input,
    output,
    mediaInput: dearest(input, ...ofMedia(false)),
    mediaOutput: dearest(output, ...ofMedia(true)),
    hasMedia: mediaClasses.some(({ name }) => rates[name] !== undefined)
  }
}

type Stages = Pick<RateSet, "basic" | "longContext">

const stagesOf = (
  { longContext = [], ...prices }: Omit<Prices, "toolUses" | "factors" | "gpuHour" | keyof UnitRates>,
  rules: PriceRules,
  least?: Rates
): Stages => {
  const basic = ratesOf(prices, rules, least)
  return {
    basic,
    longContext: longContext
      .map(({ aboveTokens, ...own }) => ({ aboveTokens, rates: ratesOf(own, rules, basic) }))
      .toSorted((a, b) => b.aboveTokens - a.aboveTokens)
  }
}

const withCeilings = ({ basic, longContext }: Stages): RateSet => ({
  basic,
  longContext,
  ceilings: [{ aboveTokens: -1, rates: basic }, ...longContext].map(({ aboveTokens, rates }) =>
    ceilingOf(aboveTokens, rates)
  )
})

const mapRates = (rates: Rates, change: (rate: bigint, name: keyof Rates) => bigint): Rates =>
  Object.fromEntries(
    Object.entries(rates).map(([name, rate]: readonly [string, bigint]) => [name, change(rate, name as keyof Rates)])
  ) as unknown as Rates

const perFactor = 10_000n

/** All rates times a factor of four decimals, rounded up. */
const multiplied = (stages: Stages, factor: number): Stages => {
  const times = BigInt(Math.round(factor * Number(perFactor)))
  const all = (rates: Rates) => mapRates(rates, (rate) => (rate * times + perFactor - 1n) / perFactor)
  return {
    basic: all(stages.basic),
    longContext: stages.longContext.map(({ aboveTokens, rates }) => ({ aboveTokens, rates: all(rates) }))
  }
}

const rateIn = (rates: Rates, name: keyof Rates): bigint =>
  rates[name] ?? rates[mediaClasses.find((medium) => medium.name === name)?.whole ?? "input"]

const dearestRates = (rates: ReadonlyArray<Rates>): Rates => {
  const classes = new Set(rates.flatMap((one) => Object.keys(one) as Array<keyof Rates>))
  return Object.fromEntries(
    Array.from(classes, (name) => [name, dearest(...rates.map((one) => rateIn(one, name)))])
  ) as unknown as Rates
}

/** The dearest of each class of some services, for requests of each length. */
const dearestOf = (sets: ReadonlyArray<Stages>): Stages => {
  const lengths = new Set(sets.flatMap(({ longContext }) => longContext.map(({ aboveTokens }) => aboveTokens)))
  return {
    basic: dearestRates(sets.map(({ basic }) => basic)),
    longContext: [...lengths]
      .toSorted((a, b) => b - a)
      .map((aboveTokens) => ({ aboveTokens, rates: dearestRates(sets.map((set) => ratesFor(set, aboveTokens + 1))) }))
  }
}

/** Stands for the dearest of a dimension in the key of a service. */
const any = "*"

/** The usual service, and those of some names. */
const choices = (names: ReadonlySet<string>) => [undefined, ...names]

/** The rates of each service that the factors name, alone and together. */
const servicesOf = (
  usual: Stages,
  factors: ReadonlyArray<PriceFactor>,
  rules: PriceRules
): ServiceRates | undefined => {
  if (factors.length === 0) return undefined
  const known = factors.map(({ when, ...price }) => ({ ...price, when: servedWhen(when) }))
  // One that names a combination goes before those of its parts.
  const ordered = known.toSorted((a, b) => Object.keys(b.when).length - Object.keys(a.when).length)
  const namesOf = (dimension: keyof Served) =>
    new Set(known.flatMap(({ when }) => (when[dimension] === undefined ? [] : [when[dimension]])))
  const names = { tier: namesOf("tier"), speed: namesOf("speed"), geo: namesOf("geo") }
  const stagesAt = (served: Served): Stages => {
    const open = new Set(["tier", "speed", "geo"] as const)
    const applying = ordered.filter(({ when }) => {
      const own = Object.keys(when) as Array<keyof Served>
      const applies = own.every((dimension) => open.has(dimension) && when[dimension] === served[dimension])
      if (applies) for (const dimension of own) open.delete(dimension)
      return applies
    })
    const replaced = applying.flatMap(({ prices }) =>
      prices === undefined ? [] : [stagesOf(prices, rules, usual.basic)]
    )
    const start = replaced.length > 1 ? dearestOf(replaced) : (replaced[0] ?? usual)
    return applying.reduce((stages, { factor }) => (factor === undefined ? stages : multiplied(stages, factor)), start)
  }
  /** Of a service whose last dimensions are open: the rates of each of their names, and of the dearest of these. */
  const openAt = (chosen: Served, [dimension, ...open]: ReadonlyArray<keyof Served>): ReadonlyArray<ServiceStages> => {
    if (dimension === undefined) return [{ served: chosen, stages: stagesAt(chosen) }]
    const each = choices(names[dimension]).map((name) => openAt(withName(chosen, dimension, name), open))
    const dearestOfAll = (each[0] ?? []).map(({ served }, index) => ({
      served: withName(served, dimension, any),
      stages: dearestOf(each.flatMap((services) => services[index]?.stages ?? []))
    }))
    return [...each.flat(), ...dearestOfAll]
  }
  const sets = openAt({}, ["tier", "speed", "geo"]).map(
    ({ served: { geo, speed, tier }, stages }) => [serviceKey(tier, speed, geo), withCeilings(stages)] as const
  )
  return { names, sets: new Map(sets) }
}

interface ServiceStages {
  readonly served: Served
  readonly stages: Stages
}

const withName = (served: Served, dimension: keyof Served, name: string | undefined): Served => ({
  ...served,
  [dimension]: name
})

export const rateTable = (
  { factors = [], gpuHour, toolUses: toolFees = {}, ...prices }: Prices,
  rules: PriceRules = { writesCostMore: false }
): RateTable => {
  const usual = stagesOf(prices, rules)
  const services = servicesOf(usual, factors, rules)
  const unitRates = unitRatesOf(prices)
  return {
    ...withCeilings(usual),
    toolFees,
    ...(unitRates === undefined ? {} : { unitRates }),
    ...(gpuHour === undefined ? {} : { gpuHour }),
    ...(services === undefined ? {} : { services })
  }
}

/** Whether a table has a price for all that an answer names of its service. */
export const isPriced = ({ services }: RateTable, { geo, speed, tier }: Served): boolean =>
  (tier === undefined || services?.names.tier.has(tier) === true) &&
  (speed === undefined || services?.names.speed.has(speed) === true) &&
  (geo === undefined || services?.names.geo.has(geo) === true)

/** The rates of a service; the dearest that are known of a dimension whose name has no price. */
export const ratesAt = (table: RateTable, served: Served | undefined): RateSet => {
  const { services } = table
  if (served === undefined || services === undefined) return table
  const nameOf = (dimension: keyof Served) => {
    const name = served[dimension]
    return name === undefined || services.names[dimension].has(name) ? name : any
  }
  return services.sets.get(serviceKey(nameOf("tier"), nameOf("speed"), nameOf("geo"))) ?? table
}

/** Names of each dimension of a service that an answer may have; undefined in a list is the usual one, `any` all others too. */
export interface MaybeServed {
  readonly tier: ReadonlyArray<string | undefined>
  readonly speed: ReadonlyArray<string | undefined>
  readonly geo: ReadonlyArray<string | undefined>
}

/** Any service whose price is known. */
export const anyService: MaybeServed = { tier: [any], speed: [any], geo: [any] }

/** The rates that a call may be charged at, by what its answer may name. */
const setsAt = (table: RateTable, { geo, speed, tier }: MaybeServed): ReadonlyArray<RateSet> =>
  tier.flatMap((one) =>
    speed.flatMap((two) => geo.map((three) => ratesAt(table, { tier: one, speed: two, geo: three })))
  )

/** The rates for a request with this many input tokens; they apply to the whole request. */
export const ratesFor = ({ basic, longContext }: Stages, inputTokens: number): Rates =>
  longContext.find(({ aboveTokens }) => inputTokens > aboveTokens)?.rates ?? basic

/** One line of a charge in nano-dollars, rounded up once. */
const line = (tokens: number, rate: bigint): bigint =>
  tokens === 0 ? 0n : (BigInt(tokens) * rate + tokensPerRate - 1n) / tokensPerRate

/** What the uses of tools cost in nano-dollars; a use without a known fee costs nothing. */
export const toolCost = (uses: ToolUses, fees: ToolFees): bigint =>
  billedTools.reduce((sum, tool) => {
    const used = uses[tool] ?? 0
    const billed = tool === "webSearch" && fees.webSearchUnit === "request" ? Math.min(1, used) : used
    return sum + BigInt(billed) * (fees[tool] ?? 0n)
  }, 0n)

/** The media of a usage that have a price of their own; undefined where there are none. */
export const pricedMedia = ({ media: given }: TokenUsage, rates: Rates): TokenUsage["media"] => {
  if (given === undefined) return undefined
  const priced = mediaClasses.flatMap(({ name }) => {
    const tokens = given[name] ?? 0
    return tokens > 0 && rates[name] !== undefined ? [[name, tokens] as const] : []
  })
  return priced.length === 0 ? undefined : Object.fromEntries(priced)
}

const millisPerHour = 3_600_000n

/** What the time of a call costs in nano-dollars, divided by the calls that run at once, and rounded up once. */
const gpuCost = (upstreamMs: number, { slots, usd }: GpuHour): bigint => {
  const calls = millisPerHour * BigInt(slots)
  return (BigInt(upstreamMs) * usd + calls - 1n) / calls
}

/** The counts of a usage that are tokens. */
export const countedTokens = [
  "inputTokens",
  "outputTokens",
  "cachedInputTokens",
  "cacheWriteTokens",
  "cacheWrite1hTokens",
  "reasoningTokens"
] as const

/** A usage without what other models read and wrote. */
const withoutOthers = (usage: TokenUsage, others: ReadonlyArray<OtherModel>): TokenUsage => ({
  ...usage,
  ...Object.fromEntries(
    countedTokens.map((name) => [
      name,
      others.reduce((left, other) => Math.max(0, left - other.usage[name]), usage[name])
    ])
  )
})

/** The prices of another model of the same provider; undefined where they are not known. */
export type TableOf = (model: string) => RateTable | undefined

const noTable: TableOf = () => undefined

/**
 * What a usage costs in nano-dollars: each token in one class, each class rounded up once, each use of a tool and each other
 * unit. What other models read and wrote is charged by their prices, or where these are not known by the model's own. Where the time
 * of calls is charged, it is that alone.
 */
export const costOf = (usage: TokenUsage, table: RateTable, tableOf: TableOf = noTable): bigint => {
  if (table.gpuHour !== undefined) return gpuCost(usage.upstreamMs ?? 0, table.gpuHour)
  const { otherModels, served } = usage
  const units = unitCost(usage.units, table)
  if (otherModels === undefined) return units + costOfModel(usage, table)
  const serving = served === undefined ? {} : { served }
  return otherModels.reduce(
    (sum, other) => sum + costOfModel({ ...other.usage, ...serving }, tableOf(other.model) ?? table),
    units + costOfModel(withoutOthers(usage, otherModels), table)
  )
}

const costOfModel = (usage: TokenUsage, table: RateTable): bigint => {
  const rates = ratesFor(ratesAt(table, usage.served), usage.inputTokens)
  const text = {
    input: Math.max(0, usage.inputTokens - usage.cachedInputTokens - usage.cacheWriteTokens),
    cacheRead: usage.cachedInputTokens,
    output: usage.outputTokens - usage.reasoningTokens
  }
  let sum = 0n
  if (usage.media !== undefined) {
    for (const { name, whole } of mediaClasses) {
      const [tokens, rate] = [Math.min(text[whole], usage.media[name] ?? 0), rates[name]]
      if (rate === undefined) continue
      sum += line(tokens, rate)
      text[whole] -= tokens
    }
  }
  return (
    sum +
    line(text.input, rates.input) +
    line(text.cacheRead, rates.cacheRead) +
    line(usage.cacheWriteTokens - usage.cacheWrite1hTokens, rates.cacheWrite) +
    line(usage.cacheWrite1hTokens, rates.cacheWrite1h) +
    line(text.output, rates.output) +
    line(usage.reasoningTokens, rates.reasoning) +
    (usage.toolUses === undefined ? 0n : toolCost(usage.toolUses, table.toolFees))
  )
}

/** At most this many classes have tokens at once, and each line of a charge is rounded up by less than one. */
const textLines = { input: 4n, output: 2n }
const mediaLines = { input: 10n, output: 5n }

/** What bounds a cost besides the tokens. */
export interface CostTerms {
  /** What the tools cost that a provider runs. */
  readonly maxFees?: ((fees: ToolFees) => bigint) | undefined
  /** The most that is billed by other units than tokens. */
  readonly maxUnits?: UsageUnits | undefined
  /** What the answer may name of its service at one of the tables; any whose price is known unless given. */
  readonly servedAt?: ((index: number) => MaybeServed) | undefined
  /** Whether the model reads no media, and writes none. */
  readonly readsText?: boolean
  readonly writesText?: boolean
  /** The longest that the call may take at its provider; none unless given, so that only tokens and tools are bounded. */
  readonly timeoutSeconds?: number
}

/** Upper bound of the cost of any usage within these limits, for each of the tables and each token class. */
export const costBound = (
  inputTokens: number,
  outputTokens: number,
  tables: ReadonlyArray<RateTable>,
  { maxFees, maxUnits, readsText = false, servedAt, timeoutSeconds = 0, writesText = false }: CostTerms = {}
): bigint => {
  let bound = 0n
  for (const [index, table] of tables.entries()) {
    if (table.gpuHour !== undefined) {
      const cost = gpuCost(timeoutSeconds * 1000, table.gpuHour)
      if (cost > bound) bound = cost
      continue
    }
    const fees = (maxFees === undefined ? 0n : maxFees(table.toolFees)) + unitCost(maxUnits, table)
    const sets = table.services === undefined ? [table] : setsAt(table, servedAt?.(index) ?? anyService)
    for (const { ceilings } of sets) {
      for (const rates of ceilings) {
        if (inputTokens <= rates.aboveTokens) continue
        const input = readsText ? rates.input : rates.mediaInput
        const output = writesText ? rates.output : rates.mediaOutput
        const lines = rates.hasMedia ? mediaLines : textLines
        const cost =
          line(inputTokens, input) +
          (input === 0n || inputTokens === 0 ? 0n : lines.input - 1n) +
          fees +
          line(outputTokens, output) +
          (output === 0n || outputTokens === 0 ? 0n : lines.output - 1n)
        if (cost > bound) bound = cost
      }
    }
  }
  return bound
}
