import { type Answer } from "../../api/operations.ts"
import { count, usd } from "../../kit/format.tsx"

/** Prices of a model, as its list has them. */
type Prices = NonNullable<Answer<"llm.models">[number]["prices"]>

/** What changes no price, or is none of tokens. */
const besides: ReadonlySet<string> = new Set(["factors", "toolUses"])

/** Whether all prices of a model are zero. */
const isFree = (prices: Prices): boolean =>
  Object.entries(prices).every(([name, price]) => price === 0 || besides.has(name))

/** What the input costs, or what there is in its place. */
export const inputPrice = (prices: Prices): string => {
  const { gpuHour, inputUsdPerMTok = 0 } = prices
  if (gpuHour !== undefined) return `${usd(gpuHour.usd)} a GPU-hour, over ${count(gpuHour.slots)} calls`
  return isFree(prices) ? "free" : usd(inputUsdPerMTok)
}

const isByTokens = (prices: Prices): boolean => prices.gpuHour === undefined && !isFree(prices)

export const cachedPrice = (prices: Prices): string | null =>
  isByTokens(prices) ? usd(prices.cacheReadUsdPerMTok ?? prices.inputUsdPerMTok ?? 0) : null

export const outputPrice = (prices: Prices): string | null =>
  isByTokens(prices) ? usd(prices.outputUsdPerMTok ?? 0) : null
