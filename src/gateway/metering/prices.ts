import { Effect, Layer, Struct } from "effect"
import { ModelNames } from "../../budgets/attribution/service.ts"
import { PriceUnknown } from "../../budgets/ledger/domain.ts"
import { type Units } from "../../budgets/reservations/domain.ts"
import { Prices } from "../../budgets/reservations/service.ts"
import { costBound, costOf } from "../catalog/cost.ts"
import { type RateTable } from "../catalog/rate-domain.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { type UsageUnits } from "../formats/domain.ts"

/** The models that names and aliases stand for, as calls resolve them. */
export const ModelNamesLayer = Layer.effect(
  ModelNames,
  Effect.map(
    GatewayConfiguration,
    ({ snapshot }) =>
      (name: string) =>
        snapshot().modelNamed(name)?.id ?? name
  )
)

const usageUnits = ({ audioSeconds, ...units }: Units): UsageUnits =>
  audioSeconds === undefined ? units : { ...units, audioMilliseconds: Math.ceil(audioSeconds * 1000) }

/** Whether units that a model has a price of are missing altogether, so that what it costs is not known. */
const lacksUnits = (units: Units | undefined, { unitRates }: RateTable): boolean => {
  if (unitRates === undefined) return false
  const { audioSecondUsd, characterUsd, image, pageUsd, searchUnitUsd } = unitRates
  const needed: Record<keyof Units, unknown> = {
    audioSeconds: audioSecondUsd,
    characters: characterUsd,
    images: image,
    pages: pageUsd,
    searchUnits: searchUnitUsd
  }
  const priced = Struct.keys(needed).filter((unit) => needed[unit] !== undefined)
  return priced.length > 0 && !priced.some((unit) => units?.[unit] !== undefined)
}

/** Model prices from the gateway's catalogue, for reservations and reconciliation outside the gateway. */
export const CataloguePricesLayer = Layer.effect(
  Prices,
  Effect.gen(function* () {
    const configuration = yield* GatewayConfiguration

    const tablesOf = Effect.fnUntraced(function* (model: string, units: Units | undefined) {
      const targets = configuration.snapshot().modelNamed(model)?.targets ?? []
      const tables = targets.flatMap(({ rates }) => (rates === null ? [] : [rates]))
      // If one of its targets has no known price, neither has the model.
      return tables.length === 0 || tables.length < targets.length || tables.some((table) => lacksUnits(units, table))
        ? yield* new PriceUnknown({ model })
        : tables
    })

    return Prices.of({
      estimate: ({ inputTokens, maxOutputTokens, model, units }) =>
        Effect.map(tablesOf(model, units), (tables) => {
          const { timeoutSeconds } = configuration.snapshot().routing
          const maxUnits = units === undefined ? undefined : usageUnits(units)
          return costBound(inputTokens, maxOutputTokens, tables, { maxUnits, timeoutSeconds })
        }),
      charge: (usage) =>
        Effect.flatMap(tablesOf(usage.model, usage.units), (tables) => {
          // Tokens do not say how long a call has taken.
          if (tables.some(({ gpuHour }) => gpuHour !== undefined)) {
            return Effect.fail(new PriceUnknown({ model: usage.model }))
          }
          const cachedInputTokens = Math.min(usage.inputTokens, usage.cacheReadTokens ?? 0)
          const counted = {
            inputTokens: usage.inputTokens,
            outputTokens: usage.outputTokens,
            cachedInputTokens,
            cacheWriteTokens: Math.min(usage.inputTokens - cachedInputTokens, usage.cacheWriteTokens ?? 0),
            cacheWrite1hTokens: 0,
            reasoningTokens: Math.min(usage.outputTokens, usage.reasoningTokens ?? 0),
            ...(usage.units === undefined ? {} : { units: usageUnits(usage.units) })
          }
          const dearest = tables.reduce((most: bigint, table: RateTable) => {
            const cost = costOf(counted, table)
            return cost > most ? cost : most
          }, 0n)
          return Effect.succeed(dearest)
        })
    })
  })
)
