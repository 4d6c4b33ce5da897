import { Record } from "effect"
import { type BilledLine, dayMillis, dayOf } from "../../gateway/bills/domain.ts"
import { estimatedItem } from "../../insights/reconciliation/comparison-domain.ts"
import { type ChargedLine } from "../../insights/reconciliation/service.ts"

/** The days of the demo's bills, the ones that a provider is asked for at first. */
export const billedDays = 31

/** How many days ago the bills of the demo differ from what was charged. */
const daysAgo = { dearer: 9, others: 6, partial: 1 }

const dearerModel = "claude-opus-4-5"

const projectId = "proj_1aQ"
const keyId = "key_8fK2"

const same = [1n, 1n] as const
const timesOf = (value: bigint, [numerator, denominator]: readonly [bigint, bigint]): bigint =>
  (value * numerator) / denominator

/**
 * Bills that are like those of vendors: calls without a count are not on them, Anthropic's have a discount and a model at another
 * price on one day, and OpenAI's have a day on which others use its keys, too, and a last one that is not complete yet.
 */
export const billOf = (provider: "anthropic" | "openai", today: number) => {
  const hasDiscount = provider === "anthropic"
  const { dearer, others, partial } = Record.map(daysAgo, (ago) => dayOf(today - ago * dayMillis))
  const used = new Map([
    [others, [6n, 5n] as const],
    [partial, [1n, 2n] as const]
  ])
  return (charged: ReadonlyArray<ChargedLine>): ReadonlyArray<BilledLine> =>
    charged
      .filter(({ item }) => item !== estimatedItem)
      .map(({ cost, day, item, meter, model, quantity, tier }) => {
        const use = (hasDiscount ? undefined : used.get(day)) ?? same
        const list = timesOf(timesOf(cost, use), day === dearer && model === dearerModel ? [3n, 1n] : same)
        return {
          day,
          projectId,
          keyId,
          model,
          tier,
          meter,
          item,
          cost: hasDiscount ? timesOf(list, [19n, 20n]) : list,
          listCost: hasDiscount ? list : null,
          quantity: quantity === null ? null : timesOf(quantity, use)
        }
      })
}
