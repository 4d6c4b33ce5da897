import { type Strategy } from "../configuration/configuration-domain.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"

/** What an order may depend on beside the configuration. */
export interface RoutingFacts {
  /** The latency that a target has lately had; undefined before its first answer. */
  latency(target: ModelTarget): number | undefined
  /** A number from 0 to below 1. */
  random(): number
}

/** What a thousand tokens in and out cost, whatever share they have: enough to tell cheap from dear. */
const dearness = ({ rates }: ModelTarget): bigint | undefined =>
  rates === null ? undefined : rates.basic.input + rates.basic.output

/** Nobody is put last for being unknown but by price, where unknown may be anything. */
const byLatency = (facts: RoutingFacts) => (one: ModelTarget, other: ModelTarget) =>
  (facts.latency(one) ?? 0) - (facts.latency(other) ?? 0)

const byPrice = (one: ModelTarget, other: ModelTarget): number => {
  const [a, b] = [dearness(one), dearness(other)]
  if (a === undefined || b === undefined) return a === b ? 0 : a === undefined ? 1 : -1
  return a < b ? -1 : a > b ? 1 : 0
}

/** Draws without putting back, each by its weight; what has none comes last. */
const drawn = (targets: ReadonlyArray<ModelTarget>, random: () => number): ReadonlyArray<ModelTarget> => {
  const left = [...targets]
  const order: Array<ModelTarget> = []
  while (left.length > 0) {
    const total = left.reduce((sum, { weight }) => sum + weight, 0)
    let mark = random() * total
    const found = left.findIndex(({ weight }) => (mark -= weight) < 0)
    order.push(...left.splice(Math.max(0, found), 1))
  }
  return order
}

const ordered = (targets: ReadonlyArray<ModelTarget>, strategy: Strategy, facts: RoutingFacts) => {
  switch (strategy) {
    case "weighted":
      return drawn(targets, facts.random)
    case "least-latency":
      return targets.toSorted(byLatency(facts))
    case "cheapest":
      return targets.toSorted(byPrice)
    case "priority":
    case "subscription-first":
      return targets
  }
}

/** The order in which targets are tried: by their priority, and among equals as the strategy says. */
export const routeOrder = (
  targets: ReadonlyArray<ModelTarget>,
  strategy: Strategy,
  facts: RoutingFacts
): ReadonlyArray<ModelTarget> => {
  if (targets.length < 2) return targets
  const groups = Map.groupBy(targets, ({ priority }) => priority)
  const priorities = [...groups.keys()].toSorted((a, b) => a - b)
  return priorities.flatMap((priority) => ordered(groups.get(priority) ?? [], strategy, facts))
}
