import { billedTools, type TokenUsage, type ToolUses } from "../formats/domain.ts"
import { type Prices, type RateTable, type Rates, type ToolFees } from "./rate-domain.ts"

const tokensPerRate = 1_000_000n

type Classes = Omit<Prices, "longContext" | "toolUses">

const ratesOf = (prices: Classes): Rates => {
  const input = prices.inputUsdPerMTok
  const output = prices.outputUsdPerMTok ?? 0n
  const cacheWrite = prices.cacheWriteUsdPerMTok ?? input
  return {
    input,
    output,
    cacheRead: prices.cacheReadUsdPerMTok ?? input,
    cacheWrite,
    // Only Anthropic sells one-hour cache writes; without a known price they cost twice the input.
    cacheWrite1h: prices.cacheWrite1hUsdPerMTok ?? (prices.cacheWriteUsdPerMTok === undefined ? input : 2n * input),
    reasoning: prices.reasoningUsdPerMTok ?? output
  }
}

const dearest = (...rates: ReadonlyArray<bigint>): bigint => rates.reduce((a, b) => (a > b ? a : b))

export const rateTable = ({ longContext = [], toolUses: toolFees = {}, ...prices }: Prices): RateTable => {
  const basic = ratesOf(prices)
  const long = longContext
    .map(({ aboveTokens, ...own }) => ({ aboveTokens, rates: ratesOf(own) }))
    .toSorted((a, b) => b.aboveTokens - a.aboveTokens)
  return {
    basic,
    toolFees,
    longContext: long,
    ceilings: [{ aboveTokens: -1, rates: basic }, ...long].map(({ aboveTokens, rates }) => ({
      aboveTokens,
      input: dearest(rates.input, rates.cacheRead, rates.cacheWrite, rates.cacheWrite1h),
      output: dearest(rates.output, rates.reasoning)
    }))
  }
}

/** The rates for a request with this many input tokens; they apply to the whole request. */
export const ratesFor = ({ basic, longContext }: RateTable, inputTokens: number): Rates =>
  longContext.find(({ aboveTokens }) => inputTokens > aboveTokens)?.rates ?? basic

/** One line of a charge in nano-dollars, rounded up once. */
const line = (tokens: number, rate: bigint): bigint =>
  tokens === 0 ? 0n : (BigInt(tokens) * rate + tokensPerRate - 1n) / tokensPerRate

/** What the uses of tools cost in nano-dollars; a use without a known fee costs nothing. */
export const toolCost = (uses: ToolUses, fees: ToolFees): bigint =>
  billedTools.reduce((sum, tool) => sum + BigInt(uses[tool] ?? 0) * (fees[tool] ?? 0n), 0n)

/** What a usage costs in nano-dollars: each token in one class, each class rounded up once, and each use of a tool. */
export const costOf = (usage: TokenUsage, table: RateTable): bigint => {
  const rates = ratesFor(table, usage.inputTokens)
  const fresh = usage.inputTokens - usage.cachedInputTokens - usage.cacheWriteTokens
  return (
    line(Math.max(0, fresh), rates.input) +
    line(usage.cachedInputTokens, rates.cacheRead) +
    line(usage.cacheWriteTokens - usage.cacheWrite1hTokens, rates.cacheWrite) +
    line(usage.cacheWrite1hTokens, rates.cacheWrite1h) +
    line(usage.outputTokens - usage.reasoningTokens, rates.output) +
    line(usage.reasoningTokens, rates.reasoning) +
    (usage.toolUses === undefined ? 0n : toolCost(usage.toolUses, table.toolFees))
  )
}

/** At most this many input classes have tokens at once, and each line of a charge is rounded up by less than one. */
const inputLines = 4n
const outputLines = 2n

/**
 * Upper bound of the cost of any usage within these limits, for each of the tables and each token class. `maxFees` bounds
 * what the tools cost that a provider runs.
 */
export const costBound = (
  inputTokens: number,
  outputTokens: number,
  tables: ReadonlyArray<RateTable>,
  maxFees?: (fees: ToolFees) => bigint
): bigint => {
  let bound = 0n
  for (const { ceilings, toolFees } of tables) {
    const fees = maxFees === undefined ? 0n : maxFees(toolFees)
    for (const { aboveTokens, input, output } of ceilings) {
      if (inputTokens <= aboveTokens) continue
      const cost =
        line(inputTokens, input) +
        (input === 0n || inputTokens === 0 ? 0n : inputLines - 1n) +
        fees +
        line(outputTokens, output) +
        (output === 0n || outputTokens === 0 ? 0n : outputLines - 1n)
      if (cost > bound) bound = cost
    }
  }
  return bound
}
