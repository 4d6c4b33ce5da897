import { isJson, type Json } from "../../kernel/json/parsed-json.ts"
import { usdOf } from "../../kernel/usd.ts"
import { type FormatTarget, type SentLimits } from "./format.ts"
import { pinnedTier } from "./served-domain.ts"

/** Members in which vendors of OpenAI's formats take a name of the session in their prompt cache. */
export const cacheKeyMembers = ["prompt_cache_key", "session_id", "prompt_cache_isolation_key"] as const

/**
 * The session in a vendor's prompt cache. Tenants share an account, so that a name of a caller's own never reaches it: it is
 * replaced wherever it stands, and `prompt_cache_key` is added for a vendor that takes one, unless its API documents none.
 */
export const cacheKeyChange = (body: Json, { traits }: FormatTarget, key?: string, isDocumented = true): Json => {
  const change: Record<string, string | null> = {}
  for (const name of cacheKeyMembers) {
    const isGiven = (body[name] ?? null) !== null
    if (traits.refuses.has(name)) {
      if (isGiven) change[name] = null
    } else if (key !== undefined && (isGiven || (isDocumented && traits.takes.has(name)))) {
      change[name] = key
    }
  }
  return change
}

/** OpenRouter's form of a reported cost; it takes a limit on the prices of those it sends a request on to. */
const isRouterCost = (path: ReadonlyArray<string> | undefined): boolean => path?.join(".") === "usage.cost"

const leastPrice = (asked: unknown, held: number): number =>
  typeof asked === "number" && asked >= 0 ? Math.min(held, asked) : held

/** The prices that are held for a call, as the most that its provider may choose (OpenRouter, "Provider Routing"). */
const heldPrices = ({ provider: given }: Json, { provider: { costPath }, rates = null }: FormatTarget): Json => {
  if (rates === null || !isRouterCost(costPath)) return {}
  const routing = isJson(given) ? given : {}
  const asked = isJson(routing.max_price) ? routing.max_price : {}
  const { basic, toolFees, unitRates } = rates
  const perSearch = toolFees.webSearchUnit === "request" ? (toolFees.webSearch ?? 0n) : 0n
  const max_price = {
    ...asked,
    prompt: leastPrice(asked.prompt, usdOf(basic.input)),
    completion: leastPrice(asked.completion, usdOf(basic.output)),
    request: leastPrice(asked.request, usdOf(perSearch + (unitRates?.requestUsd ?? 0n)))
  }
  return { provider: { ...routing, max_price } }
}

/** What keeps a call at the service and the prices that are held for it, where a hard cap in money applies. */
export const serviceChanges = (
  body: Json,
  target: FormatTarget,
  { pinsService }: SentLimits,
  hasTiers: boolean = true
): Json =>
  pinsService === true
    ? { ...(hasTiers ? pinnedTier(body, target.provider.vendor) : {}), ...heldPrices(body, target) }
    : {}
