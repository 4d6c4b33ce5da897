import { type TenantId } from "../../kernel/identifier.ts"
import { usdOf } from "../../kernel/usd.ts"
import { defaultParameters, detect } from "./detection.ts"
import { type Finding, type HourOfKey } from "./repository.ts"

export const hourMillis = 3_600_000
const dayMillis = 24 * hourMillis
const nanoPerUsd = 1e9

/** Younger keys have no past of their own. */
const newKeyDays = 7
/** Of a tenant's usual day, what a new key has to cost in a day. */
const newKeyShare = 0.2

const nano = (usd: number): bigint => BigInt(Math.round(usd * nanoPerUsd))

/** A finding, and whether its alert was due only now. */
export type JudgedFinding = Finding & { readonly isNew: boolean }

/** The hours of each key of each dimension, in order. */
const seriesOf = (hours: ReadonlyArray<HourOfKey>): ReadonlyArray<ReadonlyArray<HourOfKey>> => {
  const series = new Map<string, Array<HourOfKey>>()
  for (const one of hours) {
    const name = `${one.dimension} ${one.key}`
    const known = series.get(name)
    if (known === undefined) series.set(name, [one])
    else known.push(one)
  }
  return [...series.values()]
}

const spentBetween = (hours: ReadonlyArray<HourOfKey>, from: number, to: number): number =>
  hours.reduce(
    (sum, { cost, start }) =>
      start.epochMilliseconds >= from && start.epochMilliseconds < to ? sum + usdOf(cost) : sum,
    0
  )

/** Hours without a charge are hours of cost 0. */
const pointsOf = (hours: ReadonlyArray<HourOfKey>, to: number) => {
  const costs = new Map(hours.map(({ cost, start }) => [start.epochMilliseconds, usdOf(cost)]))
  const first = hours[0]?.start.epochMilliseconds ?? to
  return Array.from({ length: Math.max(0, Math.round((to - first) / hourMillis)) }, (_, row) => {
    const at = first + row * hourMillis
    return { at, value: Math.max(0, costs.get(at) ?? 0) }
  })
}

/** What is odd in the hours of a tenant up to a moment. */
export const findingsOf = (
  tenantId: TenantId,
  hours: ReadonlyArray<HourOfKey>,
  { since, to, worthUsd }: { readonly since: number; readonly to: number; readonly worthUsd: number }
): ReadonlyArray<JudgedFinding> => {
  const total = hours.filter(({ dimension }) => dimension === "total")
  const firstOfTenant = total[0]?.start.epochMilliseconds ?? to
  const isSettled = to - firstOfTenant >= 2 * newKeyDays * dayMillis
  const usualDay = spentBetween(total, to - 15 * dayMillis, to - dayMillis) / 14
  return seriesOf(hours.filter(({ dimension }) => dimension !== "total")).flatMap(
    (series): ReadonlyArray<JudgedFinding> => {
      const { dimension, key } = series[0] as HourOfKey
      if (dimension === "total") return []
      const first = series[0]?.start.epochMilliseconds ?? to
      if (isSettled && first >= to - newKeyDays * dayMillis) {
        const lastDay = spentBetween(series, to - dayMillis, to)
        if (lastDay < Math.max(worthUsd, newKeyShare * usualDay)) return []
        const actual = nano(spentBetween(series, first, to))
        return [
          {
            tenantId,
            dimension,
            key,
            kind: "new",
            startsAt: first,
            endsAt: to,
            expected: 0n,
            actual,
            score: 0,
            isNew: true
          }
        ]
      }
      return detect(pointsOf(series, to), { ...defaultParameters, worth: worthUsd })
        .filter(({ end }) => end + hourMillis > since)
        .map(({ actual, detectedAt, end, expected, kind, score, start }) => ({
          tenantId,
          dimension,
          key,
          kind,
          startsAt: start,
          endsAt: end + hourMillis,
          expected: nano(expected),
          actual: nano(actual),
          score: Math.round(score * 100) / 100,
          isNew: detectedAt + hourMillis > since
        }))
    }
  )
}
