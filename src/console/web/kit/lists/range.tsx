import { useMemo, useState } from "react"
import { ownTimeZone, timeZones } from "../format.tsx"
import { Choice, type Filters, useFilters } from "./filters.tsx"

/** A range of time with the zone of its days, as operations of usage take it; without `to` it lasts until now. */
export interface Range {
  readonly from: string
  readonly to?: string
  readonly timeZone: string
}

const hour = 3_600_000
const day = 24 * hour

/** How far a zone is ahead of UTC at a moment, in milliseconds. */
const offsetAt = (zone: string, at: number): number => {
  const parts = new Intl.DateTimeFormat("en-US", {
    timeZone: zone,
    hourCycle: "h23",
    year: "numeric",
    month: "numeric",
    day: "numeric",
    hour: "numeric",
    minute: "numeric",
    second: "numeric"
  }).formatToParts(at)
  const of = (type: string) => Number(parts.find((part) => part.type === type)?.value)
  return Date.UTC(of("year"), of("month") - 1, of("day"), of("hour"), of("minute"), of("second")) - (at - (at % 1000))
}

/** When a date begins in a zone; days and months beyond their ends are those of the next. */
export const midnight = (zone: string, year: number, month: number, date: number): number => {
  const there = Date.UTC(year, month, date)
  const near = there - offsetAt(zone, there)
  return there - offsetAt(zone, near)
}

/** The date of a moment in a zone, "2026-01-31". */
export const dateIn = (zone: string, at: number): string => new Date(at + offsetAt(zone, at)).toISOString().slice(0, 10)

const presets = [
  ["24h", "last 24 hours"],
  ["7d", "last 7 days"],
  ["30d", "last 30 days"],
  ["90d", "last 90 days"],
  ["month", "this month"],
  ["last-month", "last month"],
  ["custom", "custom dates"]
] as const

const moment = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" })

/** What a range between two moments is called, which only links lead to. */
const exactText = (first: string | undefined, last: string | undefined): string => {
  const [from = "", to = "now"] = [first, last].map((text) =>
    Number.isNaN(Date.parse(text ?? "")) ? undefined : moment.format(new Date(text ?? ""))
  )
  return `${from} to ${to}`
}

const instant = (at: number) => new Date(at).toISOString()

/** When the last so many days began, today being one of them. */
const daysBack = (days: number, zone: string, now: number): number => {
  const [year = 0, month = 1, date = 1] = dateIn(zone, now).split("-").map(Number)
  return midnight(zone, year, month - 1, date - days + 1)
}

/** The last so many days up to now, in the browser's time zone; the one meaning that "30 days" has on every page. */
export const lastDays = (days = 30): Range => ({
  from: instant(daysBack(days, ownTimeZone, Date.now())),
  timeZone: ownTimeZone
})

/** The bounds of a preset; `from` and `to` are dates, both included, of chosen days. */
const boundsOf = (
  preset: string,
  zone: string,
  now: number,
  first: string | undefined,
  last: string | undefined
): readonly [from: number, to: number | undefined] => {
  const [year = 0, month = 1] = dateIn(zone, now).split("-").map(Number)
  switch (preset) {
    case "24h":
      return [now - (now % hour) - 23 * hour, undefined]
    case "7d":
      return [daysBack(7, zone, now), undefined]
    case "90d":
      return [daysBack(90, zone, now), undefined]
    case "month":
      return [midnight(zone, year, month - 1, 1), undefined]
    case "last-month":
      return [midnight(zone, year, month - 2, 1), midnight(zone, year, month - 1, 1)]
    case "exact": {
      const from = Date.parse(first ?? "")
      const to = Date.parse(last ?? "")
      return from < (Number.isNaN(to) ? now : to)
        ? [from, Number.isNaN(to) ? undefined : to]
        : [daysBack(30, zone, now), undefined]
    }
    case "custom": {
      const startOf = (text: string, later: number) => {
        const [year = 0, month = 1, date = 1] = text.slice(0, 10).split("-").map(Number)
        return midnight(zone, year, month - 1, date + later)
      }
      const from = first === undefined ? daysBack(30, zone, now) : startOf(first, 0)
      const to = last === undefined ? undefined : startOf(last, 1)
      return to === undefined || to > from ? [from, to] : [from, from + day]
    }
    default:
      return [daysBack(30, zone, now), undefined]
  }
}

/** The range that the URL names, by default the last 30 days, and the equally long one before it. */
export const useRange = () => {
  const { set, values } = useFilters(["range", "timeZone", "first", "last"])
  const [now] = useState(Date.now)
  const preset = values.range ?? "30d"
  const timeZone = values.timeZone ?? ownTimeZone
  return useMemo(() => {
    const [from, to] = boundsOf(preset, timeZone, now, values.first, values.last)
    const end = to ?? now
    const range: Range = { from: instant(from), timeZone, ...(to === undefined ? {} : { to: instant(to) }) }
    const before: Range = { from: instant(2 * from - end), to: instant(from), timeZone }
    return { range, before, end, isHourly: end - from <= 2 * day, preset, values, set }
    // The functions and texts of the URL are the same while the URL is.
    // oxlint-disable-next-line react-hooks/exhaustive-deps
  }, [preset, timeZone, now, values.first, values.last])
}

interface OfZone {
  /** That it is one of the filters that few need. */
  readonly isExtra: boolean
  readonly isOn: boolean
  readonly onChange: (zone: string) => void
  readonly value: string
}

/** Chooses the time zone of the days, the browser's own at first. */
const ZoneChoice = ({ onChange, value }: OfZone) => (
  <Choice isRequired label="Time zone" value={value} options={timeZones()} onChange={onChange} />
)

type Chosen = ReturnType<typeof useRange>

/** Chooses a range. */
const RangeChoice = ({ preset, set, values }: Pick<Chosen, "preset" | "set" | "values">) => (
  <>
    <Choice
      isRequired
      label="Range"
      value={preset}
      options={preset === "exact" ? [["exact", exactText(values.first, values.last)], ...presets] : presets}
      onChange={(value) => set("range", value)}
    />
    {preset === "custom" ? (
      <>
        {(["first", "last"] as const).map((end) => (
          <input
            key={end}
            type="date"
            className="date"
            aria-label={end === "first" ? "First day" : "Last day"}
            value={values[end]?.slice(0, 10) ?? ""}
            onChange={(event) => set(end, event.target.value)}
          />
        ))}
      </>
    ) : null}
  </>
)

/** The filters that choose a range and its time zone. */
export const rangeFilters = ({ preset, set, values }: Chosen): Filters => {
  const zone = values.timeZone ?? ownTimeZone
  return [
    <RangeChoice key="range" preset={preset} set={set} values={values} />,
    <ZoneChoice
      key="timeZone"
      isExtra
      isOn={zone !== ownTimeZone}
      value={zone}
      onChange={(zone) => set("timeZone", zone === ownTimeZone ? "" : zone)}
    />
  ]
}
