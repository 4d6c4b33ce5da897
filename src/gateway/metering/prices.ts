import { Effect, Layer } from "effect"
import { ModelNames } from "../../budgets/attribution/service.ts"
import { PriceUnknown } from "../../budgets/ledger/domain.ts"
import { Prices } from "../../budgets/reservations/service.ts"
import { costBound, costOf } from "../catalog/cost.ts"
import { type RateTable } from "../catalog/rate-domain.ts"
import { GatewayConfiguration } from "../configuration/service.ts"

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

/** Model prices from the gateway's catalogue, for reservations and reconciliation outside the gateway. */
export const CataloguePricesLayer = Layer.effect(
  Prices,
  Effect.gen(function* () {
    const configuration = yield* GatewayConfiguration

    const tablesOf = Effect.fnUntraced(function* (model: string) {
      const targets = configuration.snapshot().modelNamed(model)?.targets ?? []
      const tables = targets.flatMap(({ rates }) => (rates === null ? [] : [rates]))
      // If one of its targets has no known price, neither has the model.
      return tables.length === 0 || tables.length < targets.length ? yield* new PriceUnknown({ model }) : tables
    })

    return Prices.of({
      estimate: ({ inputTokens, maxOutputTokens, model }) =>
        Effect.map(tablesOf(model), (tables) => {
          const { timeoutSeconds } = configuration.snapshot().routing
          return costBound(inputTokens, maxOutputTokens, tables, { timeoutSeconds })
        }),
      charge: (usage) =>
        Effect.flatMap(tablesOf(usage.model), (tables) => {
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
            reasoningTokens: Math.min(usage.outputTokens, usage.reasoningTokens ?? 0)
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
