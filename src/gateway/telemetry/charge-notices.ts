import { Context, Effect, Metric } from "effect"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { boundedName } from "./model-names.ts"

/** What is remarkable about a charge; it never contains prompts or completions. */
export type ChargeNotice =
  | "tier-unpriced"
  | "model-unpriced"
  | "usage-contradictory"
  | "cost-unreported"
  | "units-unreported"

const meanings: Readonly<Record<ChargeNotice, string>> = {
  "tier-unpriced":
    "An answer names a tier, a speed or a geography without a price: the dearest known one was charged; configure `prices.factors`",
  "model-unpriced":
    "Another model, whose prices are not known, wrote a part of an answer: it was charged by those of the requested model",
  "usage-contradictory": "A provider's usage contradicts itself: the larger of its numbers were charged",
  "cost-unreported":
    "An answer does not report the cost that `reportsCost` of its provider names: the prices of tokens were charged",
  "units-unreported": "An answer does not report the units that its model is priced by: the most were charged"
}

const counterOf = (reason: ChargeNotice) =>
  Metric.counter("app.gateway.charge_notices", {
    description:
      "Charges of answers that name a service or a model without a price, contradict themselves, or lack the cost or the units that they are to report",
    attributes: { reason, unit: "{call}" },
    incremental: true
  })
const counters: Readonly<Record<ChargeNotice, Metric.Counter<number>>> = {
  "tier-unpriced": counterOf("tier-unpriced"),
  "model-unpriced": counterOf("model-unpriced"),
  "usage-contradictory": counterOf("usage-contradictory"),
  "cost-unreported": counterOf("cost-unreported"),
  "units-unreported": counterOf("units-unreported")
}

const registry = Context.empty()

/** Notices that were logged; beyond so many, none is. */
const logged = new Set<string>()
const maxLogged = 1000

export const countNotice = (notice: ChargeNotice): void => counters[notice].updateUnsafe(1, registry)

/** Logs what is remarkable about a charge, once for each model of a provider. */
export const logNotices = (notices: ReadonlyArray<ChargeNotice>, target: ModelTarget): Effect.Effect<void> =>
  Effect.forEach(
    notices,
    (notice) => {
      const key = `${notice} ${target.provider.id} ${boundedName(target)}`
      if (logged.has(key) || logged.size >= maxLogged) return Effect.void
      logged.add(key)
      return Effect.logWarning(meanings[notice]).pipe(
        Effect.annotateLogs({ event: notice, provider: target.provider.id, model: boundedName(target) })
      )
    },
    { discard: true }
  )
