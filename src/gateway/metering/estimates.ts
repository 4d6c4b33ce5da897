import { Effect } from "effect"
import { anyService, costBound, isPriced, type MaybeServed } from "../catalog/cost.ts"
import { type RateTable } from "../catalog/rate-domain.ts"
import { CostUnbounded, ModelUnpriced, TurnBudgetExceeded } from "../configuration/domain.ts"
import { type ServedModel, type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { gatewayError, type GatewayError, notRetryable } from "../errors/gateway-error.ts"
import { type Unbounded } from "../formats/provider-tools.ts"
import {
  inputWithTools,
  maxResultTokens,
  stepsWithTools,
  type ToolLimits,
  toolLimits,
  usualResultTokens
} from "../formats/provider-tools.ts"
import { possibleNames, type ServedNames } from "../formats/served-domain.ts"
import { elsewhereAt, type TokenUpperBound } from "../formats/token-upper-bound.ts"
import { type RemainingBudget } from "./budget-errors.ts"
import { type CapConstraints } from "./budget-reservations.ts"

/** The amounts that a call is admitted with. */
export interface Estimate {
  readonly inputTokens: number
  /** For one choice, and one step of the model where it has several: the limit that holds for each. */
  readonly outputTokens: number
  /** Of all choices and steps. */
  readonly allOutputTokens: number
  /** The output limit to send, if the caller set none and one is needed. */
  readonly limit: number | undefined
  /** The limit on the uses of the provider's tools to send, if the caller set none and one is needed. */
  readonly toolLimit: number | undefined
  readonly amountNanoUsd: bigint
  readonly tokens: number
  /** Whether the usual service is to be asked for where the caller asked for none. */
  readonly pinsService: boolean
  /** Whether a hard cap in money, or in tokens, relies on it. */
  readonly isHardMoney: boolean
  readonly isHardTokens: boolean
}

/** What the maximum cost of a call depends on. */
export interface EstimateTerms {
  readonly model: ServedModel
  readonly targets: ReadonlyArray<ModelTarget>
  readonly bound: TokenUpperBound
  readonly constraints: CapConstraints
  /** Upper bound of the input that any of the targets accepts; null if there is none. */
  readonly contextTokens: number | null
  readonly defaultOutputTokens: number
  readonly defaultToolUses: number
  readonly hasOutput: boolean
  /** The tier that the call is served at whatever it asks for, where that is not the vendor's choice. */
  readonly tier?: string | undefined
  /** The longest that the call may take with all its attempts. */
  readonly timeoutSeconds: number
}

const pricedAmong = (targets: ReadonlyArray<ModelTarget>) =>
  targets.flatMap(({ provider, rates }) => (rates === null ? [] : [{ vendor: provider.vendor, rates }]))

/**
 * The input tokens that a call can be made to read at most. What stands elsewhere, or is returned by a tool whose results
 * the request does not contain, is as long as what the model can read, in every step: the caller may decide it.
 */
const maxInputTokens = (
  { elsewhere: given, inputTokens, readings = 1, readsApart, tools: asked }: TokenUpperBound,
  tools: ToolLimits | undefined,
  contextTokens: number | null,
  targets: ReadonlyArray<ModelTarget>
): number => {
  const context = readsApart === true ? Infinity : (contextTokens ?? Infinity)
  const elsewhere = elsewhereAt(given, targets)
  const read = elsewhere === undefined ? Math.min(inputTokens, context) : (contextTokens ?? inputTokens)
  if (asked === undefined || tools === undefined) return readings * read
  return readings * inputWithTools(read, tools, maxResultTokens(asked, inputTokens), contextTokens)
}

/** The input tokens that a call usually reads at most, where nothing is refused for it. */
const usualInputTokens = (
  { elsewhere, inputTokens, readings = 1, readsApart, tools: asked }: TokenUpperBound,
  tools: ToolLimits | undefined,
  { maxTokensPerToolUse }: ServedModel,
  contextTokens: number | null
): number => {
  const read = readsApart === true ? inputTokens : Math.min(contextTokens ?? Infinity, inputTokens)
  const most = elsewhere === undefined || elsewhere === "image" ? read : (contextTokens ?? inputTokens)
  if (asked === undefined || tools === undefined) return readings * most
  return readings * inputWithTools(most, tools, usualResultTokens(asked, maxTokensPerToolUse), contextTokens)
}

const estimateWith = (
  {
    bound,
    contextTokens,
    constraints,
    defaultToolUses,
    hasOutput,
    model,
    targets,
    tier,
    timeoutSeconds
  }: EstimateTerms,
  outputTokens: number
): Estimate => {
  const tools = bound.tools === undefined ? undefined : toolLimits(bound.tools, defaultToolUses)
  // Where the context is not known, and yet nothing is refused, the model costs nothing.
  const isBounded = constraints.byHard && (contextTokens !== null || tools === undefined)
  const inputTokens = isBounded
    ? maxInputTokens(bound, tools, contextTokens, targets)
    : usualInputTokens(bound, tools, model, contextTokens)
  const priced = pricedAmong(targets)
  const pinsService = constraints.byHardMoney && tier === undefined
  const steps = isBounded && tools !== undefined ? stepsWithTools(tools) : 1
  const all = hasOutput ? steps * (outputTokens * bound.choices + bound.extraOutputTokens) : 0
  return {
    inputTokens,
    outputTokens,
    allOutputTokens: all,
    limit: hasOutput && bound.askedOutputTokens === undefined && constraints.byHard ? outputTokens : undefined,
    toolLimit: constraints.byHard ? tools?.limit : undefined,
    amountNanoUsd: costBound(
      inputTokens,
      all,
      priced.map(({ rates }) => rates),
      {
        maxFees: tools?.maxFees,
        maxUnits: bound.units,
        servedAt: (index) => {
          const served = maybeServed(bound.asksFor, priced[index]?.vendor, pinsService)
          return tier === undefined ? served : { ...served, tier: [tierAt(priced[index]?.rates ?? null, tier)] }
        },
        readsText: bound.mediaTokens === 0 && bound.elsewhere === undefined && tools === undefined,
        writesText: bound.writesText === true,
        timeoutSeconds
      }
    ),
    tokens: inputTokens + all,
    pinsService,
    isHardMoney: constraints.byHardMoney,
    isHardTokens: constraints.byHardTokens === true
  }
}

/** The tier that a batch's requests are charged at; the usual one where theirs has no price, since it costs no more. */
export const tierAt = (rates: RateTable | null, tier: string): string | undefined =>
  rates !== null && isPriced(rates, { tier }) ? tier : undefined

/** What an answer may name of its service. */
const maybeServed = (asksFor: ServedNames | undefined, vendor: string | undefined, isPinned: boolean): MaybeServed => ({
  tier: possibleNames("tier", asksFor, vendor, isPinned) ?? anyService.tier,
  speed: possibleNames("speed", asksFor, vendor, isPinned) ?? anyService.speed,
  geo: possibleNames("geo", asksFor, vendor, isPinned) ?? anyService.geo
})

/** Whether every target has a price for what is asked for, which then bounds it. */
const isPricedAt = ({ pricedAs }: Unbounded, targets: ReadonlyArray<ModelTarget>): boolean =>
  pricedAs !== undefined &&
  targets.every(({ rates }) => {
    if (rates === null) return false
    return typeof pricedAs === "string" ? rates.basic[pricedAs] !== undefined : isPriced(rates, pricedAs)
  })

/** More than any model reads. */
const maxTokens = 2_147_483_647

/** Whether tokens cost nothing at a target: it is free, or the time of calls is charged, which is bounded in any case. */
const hasFreeTokens = ({ rates }: ModelTarget): boolean =>
  rates !== null && rates.unitRates === undefined && costBound(maxTokens, 1, [rates]) === 0n

/** The maximum usage and cost of a call at the most expensive of its targets; fails if it is unknown but required. */
export const estimateOf = (terms: EstimateTerms): Effect.Effect<Estimate, GatewayError> => {
  const { bound, constraints, model, targets } = terms
  if (constraints.byMoney && targets.some(({ rates }) => rates === null)) {
    const detail = `The model ${model.id} has no price, and a cap in money applies.`
    return Effect.fail(gatewayError(new ModelUnpriced({ detail })))
  }
  const unknown = constraints.byHardMoney
    ? bound.tools?.tools.find(
        ({ billed }) =>
          billed !== undefined &&
          targets.some(({ rates }) => rates?.gpuHour === undefined && rates?.toolFees[billed] === undefined)
      )
    : undefined
  if (unknown !== undefined) {
    const at = unknown.path.join(".")
    const detail = `${at}: The fee of this tool is not known for ${model.id}, and a hard cap in money applies; configure \`prices.toolUses.${unknown.billed}\`.`
    return Effect.fail(gatewayError(new ModelUnpriced({ detail }), { param: at }))
  }
  const unbounded = bound.unbounded.find(
    (one) => !isPricedAt(one, targets) && (one.isBoundedAt === undefined || !targets.every(one.isBoundedAt))
  )
  // A model whose tokens cost nothing is refused by no cap in money.
  const isBounding = constraints.byHard && !(constraints.byHardTokens === false && targets.every(hasFreeTokens))
  if (isBounding && unbounded !== undefined) {
    const { message, path } = unbounded
    const at = path.join(".")
    const detail = `${at}: ${message}, and a hard cap applies.`
    return Effect.fail(gatewayError(new CostUnbounded({ detail }), { param: at }))
  }
  const most = Math.min(model.maxOutputTokens ?? Infinity, terms.defaultOutputTokens)
  const estimate = estimateWith(terms, bound.askedOutputTokens ?? most)
  return estimate.amountNanoUsd > maxNanoUsd ? Effect.fail(tooDear) : Effect.succeed(estimate)
}

/** The maximum that the ledger stores for one call. */
const maxNanoUsd = BigInt(Number.MAX_SAFE_INTEGER)
const tooDear = gatewayError(new TurnBudgetExceeded({ detail: "No budget has room for what the call may cost." }), {
  headers: notRetryable
})

/**
 * The largest estimate that fits into what the caps leave, where the caller set no limit on the output or on the uses of
 * tools: with one use, and then with a shorter output.
 */
export const fitting = (given: EstimateTerms, estimate: Estimate, room: RemainingBudget): Estimate | undefined => {
  if (room.nanoUsd === null && room.tokens === null) return undefined
  const fits = ({ amountNanoUsd, tokens }: Estimate) =>
    (room.nanoUsd === null || amountNanoUsd <= room.nanoUsd) && (room.tokens === null || BigInt(tokens) <= room.tokens)
  const terms = estimate.toolLimit === undefined ? given : { ...given, defaultToolUses: 1 }
  const whole = estimateWith(terms, estimate.outputTokens)
  if (whole.amountNanoUsd < estimate.amountNanoUsd && fits(whole)) return whole
  if (estimate.limit === undefined) return undefined
  let [least, most] = [0, estimate.outputTokens]
  while (least < most) {
    const middle = Math.ceil((least + most) / 2)
    if (fits(estimateWith(terms, middle))) least = middle
    else most = middle - 1
  }
  return least > 0 && least < estimate.outputTokens ? estimateWith(terms, least) : undefined
}
