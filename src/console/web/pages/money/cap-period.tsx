import { useMemo, useState } from "react"
import { useLocation } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { useNow } from "../../kit/actions.tsx"
import { Bars, type Series } from "../../kit/charts/chart.tsx"
import { count, usd } from "../../kit/format.tsx"
import { dateIn, midnight } from "../../kit/lists/range.tsx"
import { useLabelled } from "../../kit/names/names.tsx"
import { Card } from "../../kit/parts.tsx"
import { type Dimension, dimensions, nameOfItem } from "../usage/usage-filters.tsx"

type Cap = Row<"budgetCaps.list">
type Item = Row<"insights.by">

const hour = 3_600_000
const day = 24 * hour
/** The longest range of a report. */
const longest = 399 * day
const shownSeries = 5

export const instant = (at: number) => new Date(at).toISOString()

/** Since when a cap counts what its period shows: the beginning of the period, or of the cap where that is later. */
export const countsFrom = (
  { createdAt, windowSeconds }: Pick<Cap, "createdAt" | "windowSeconds">,
  periodStart: string | null | undefined,
  now: number
): number => {
  const start = windowSeconds === null ? Date.parse(periodStart ?? createdAt) : now - windowSeconds * 1000
  return Math.max(start, Date.parse(createdAt))
}

/** The address of the requests that a cap counts from a moment on; of those of one counter, with the scope of that. */
export const requestsOf = (
  { scope, tenantId }: { readonly scope: Readonly<Record<string, string | number>>; readonly tenantId: string | null },
  from: number,
  to?: number
): string => {
  const named = Object.entries(scope).flatMap(([name, value]) => (value === "each" ? [] : [[name, String(value)]]))
  const search = new URLSearchParams({
    ...Object.fromEntries(named),
    ...(tenantId === null ? {} : { tenantId }),
    range: "exact",
    first: instant(from),
    ...(to === undefined ? {} : { last: instant(to) })
  })
  return `/requests?${search}`
}

const placeIn = (zone: string, isHourly: boolean) => (at: number) =>
  isHourly ? Math.floor(at / hour) * hour : Date.parse(`${dateIn(zone, at)}T00:00:00Z`)

/** The moments of a period, as hours or as days of a zone, up to its end or, where it has none, up to now. */
const momentsOf = (from: number, to: number, zone: string, isHourly: boolean): ReadonlyArray<number> => {
  const placeOf = placeIn(zone, isHourly)
  const step = isHourly ? hour : day
  const last = placeOf(to)
  const places: Array<number> = []
  for (let at = placeOf(from); at <= last; at += step) places.push(at)
  return places
}

const dimensionOf = (member: string | undefined): Dimension =>
  (Object.keys(dimensions) as ReadonlyArray<Dimension>).find((name) => dimensions[name][0] === member) ?? "model"

interface OfPeriod {
  readonly cap: Cap
  /** The first of its counters, which says when the period is. */
  readonly counter: Row<"budgetCaps.status">
}

/** What a cap counted in its period as running totals, by what it counts each of or else by model, below its limit. */
export const CapPeriod = ({ cap, counter }: OfPeriod) => {
  const { grants, periodEnd, periodStart } = counter
  const { scope, tenantId, timeZone, unit } = cap
  const now = useNow(60)
  const [opened] = useState(now)
  const [, go] = useLocation()
  const began = countsFrom(cap, periodStart, opened)
  const from = Math.max(began, opened - longest)
  const end = periodEnd == null ? now : Date.parse(periodEnd) - 1
  const isHourly = end - from <= 2 * day
  const members = Object.entries(scope)
  const dimension = dimensionOf(members.find(([, value]) => value === "each")?.[0])
  const named = Object.fromEntries(members.filter(([, value]) => value !== "each"))
  const query = {
    ...named,
    ...(tenantId === null ? {} : { tenantId }),
    from: instant(from),
    timeZone,
    includeSynthetic: "true",
    limit: 200
  } as const
  const asked = useCall("insights.by", { params: { dimension }, query }, { everySeconds: 60, keepsPrevious: true })
  const { data } = useLabelled(asked)
  const { series, times } = useMemo(() => {
    const placeOf = placeIn(timeZone, isHourly)
    const places = momentsOf(from, end, timeZone, isHourly)
    const valuesOf = (items: ReadonlyArray<Item>): Series["values"] => {
      const sums = Map.groupBy(
        items.flatMap(({ series }) => series),
        ({ start }) => placeOf(Date.parse(start))
      )
      let total = 0
      return places.map((place) => {
        if (place > placeOf(now)) return null
        for (const point of sums.get(place) ?? []) total += unit === "requests" ? point.requests : point.costUsd
        return total
      })
    }
    const items = data?.items ?? []
    const rest = items.slice(shownSeries)
    return {
      times: places.map((place) => place / 1000),
      series: [
        ...items.slice(0, shownSeries).map((item) => ({ label: nameOfItem(item), values: valuesOf([item]) })),
        ...(rest.length === 0 ? [] : [{ label: "Everything else", values: valuesOf(rest) }])
      ]
    }
  }, [data, timeZone, isHourly, from, end, now, unit])
  if (data === undefined || data.items.length === 0 || times.length < 2) return null
  const hasEach = members.some(([, value]) => value === "each")
  const limit = hasEach || from !== began || unit === "tokens" ? undefined : counter.limit + grants
  const format = unit === "requests" ? count : usd
  return (
    <Card
      title={unit === "requests" ? "Requests in this period" : "Spend in this period"}
      link={[requestsOf(cap, began), "Requests counted"]}
    >
      <div className="in">
        <Bars
          label={`Running totals of the period by ${dimensions[dimension][1].toLowerCase()}`}
          format={format}
          isHourly={isHourly}
          times={times}
          series={series}
          limit={limit}
          onPick={(time, place = shownSeries) => {
            const key = place < shownSeries ? data.items[place]?.key : undefined
            const length = isHourly ? hour : day
            const [year = 0, month = 1, date = 1] = instant(time * 1000)
              .slice(0, 10)
              .split("-")
              .map(Number)
            const start = isHourly ? time * 1000 : midnight(timeZone, year, month - 1, date)
            const of = key == null ? scope : { ...scope, [dimensions[dimension][0]]: key }
            go(requestsOf({ scope: of, tenantId }, Math.max(start, began), start + length))
          }}
        />
        <p>
          <small>
            Running totals by {dimensions[dimension][1].toLowerCase()}
            {unit === "tokens" ? ", in US dollars" : ""}
            {limit === undefined ? "" : `; the dashed line is the limit of ${format(limit)}`}.
          </small>
        </p>
      </div>
    </Card>
  )
}
