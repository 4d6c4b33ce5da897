import { type MouseEvent, useEffect, useMemo, useRef, useState } from "react"
import type uPlot from "uplot"
import { usd } from "../format.tsx"

/** One series of a chart: a value for each moment. */
export interface Series {
  readonly label: string
  readonly values: ReadonlyArray<number | null>
}

const colours = ["--c1", "--c2", "--c3", "--c4", "--c5"]

/** The token with the colour of a series; those after the fifth share one. */
export const colourOf = (index: number): string => colours[index] ?? "--ink-3"

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" })
const hourOfDay = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" })
const wholeDay = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeZone: "UTC" })
const dayAndHour = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" })

/** Counts how often the theme has changed: a canvas keeps the colours that it was drawn with. */
const useThemeChanges = (): number => {
  const [changes, setChanges] = useState(0)
  useEffect(() => {
    const count = () => setChanges((before) => before + 1)
    const system = matchMedia("(prefers-color-scheme: dark)")
    const chosen = new MutationObserver(count)
    system.addEventListener("change", count)
    chosen.observe(document.documentElement, { attributeFilter: ["style"] })
    return () => {
      system.removeEventListener("change", count)
      chosen.disconnect()
    }
  }, [])
  return changes
}

const labelWidth = 56
const yAxisWidth = 70

/** The moments that the axis names: each, or every second one, … as there is room. */
const named = (times: ReadonlyArray<number>, width: number): Array<number> => {
  const step = Math.ceil(times.length / Math.max(1, Math.floor(width / labelWidth)))
  return times.filter((_, at) => at % step === 0)
}

/** The series with its place among all of them, which decides its colour. */
interface Shown extends Series {
  readonly place: number
}

/** What each series reaches to, standing on those before it; nothing at moments that have no value yet. */
const stackedOf = (
  series: ReadonlyArray<Shown>,
  times: ReadonlyArray<number>
): ReadonlyArray<ReadonlyArray<number | null>> => {
  const sums = times.map(() => 0)
  return series.map(({ values }) =>
    values.map((value, at) => (value === null ? null : (sums[at] = (sums[at] ?? 0) + value)))
  )
}

interface OfBars {
  readonly format?: (value: number) => string
  /** Whether the moments are hours, shown in local time, and not days, which are those of UTC. */
  readonly isHourly?: boolean
  readonly label: string
  /** A line across the chart, which everything stays below. */
  readonly limit?: number | undefined
  /** Called with what is clicked: a moment in epoch seconds, and the place of the series, where one is hit. */
  readonly onPick?: (time: number, place: number | undefined) => void
  readonly series: ReadonlyArray<Series>
  /** Epoch seconds. */
  readonly times: ReadonlyArray<number>
}

/** Where the pointer is: the place of a moment, and how far from the left. */
interface Pointed {
  readonly at: number
  readonly left: number
  readonly isRight: boolean
}

/** Bars over time, one colour a series, stacked; the table beside a chart says the same in words. */
export const Bars = ({ format = usd, isHourly = false, label, limit, onPick, series, times }: OfBars) => {
  const place = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(undefined)
  const theme = useThemeChanges()
  const [hidden, setHidden] = useState<ReadonlySet<number>>(new Set())
  const [pointed, setPointed] = useState<Pointed>()
  const shown = useMemo(
    () => series.map((one, place): Shown => ({ ...one, place })).filter(({ place }) => !hidden.has(place)),
    [series, hidden]
  )
  const stacked = useMemo(() => stackedOf(shown, times), [shown, times])
  useEffect(() => {
    const element = place.current
    if (element === null || times.length === 0) return
    let chart: uPlot | undefined
    let isGone = false
    const observer = new ResizeObserver(() =>
      chart?.setSize({ width: element.clientWidth, height: element.clientHeight })
    )
    void Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]).then(([{ default: UPlot }]) => {
      if (isGone) return
      const style = getComputedStyle(element)
      const colour = (name: string) => style.getPropertyValue(name)
      const paths = UPlot.paths.bars!({ size: [0.8, 60], radius: 0.1 })
      const axis = {
        font: `12px ${style.fontFamily}`,
        stroke: colour("--ink-3"),
        grid: { stroke: colour("--line"), width: 1 },
        ticks: { show: false }
      }
      chart = new UPlot(
        {
          width: element.clientWidth,
          height: element.clientHeight,
          legend: { show: false },
          cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
          hooks: {
            draw: [
              (drawn) => {
                if (limit === undefined) return
                const { ctx } = drawn
                const { height, left, top, width } = drawn.bbox
                const at = Math.min(Math.max(drawn.valToPos(limit, "y", true), top + 1), top + height)
                ctx.save()
                ctx.strokeStyle = colour("--bad")
                ctx.lineWidth = 1.5 * devicePixelRatio
                ctx.setLineDash([6 * devicePixelRatio, 4 * devicePixelRatio])
                ctx.beginPath()
                ctx.moveTo(left, at)
                ctx.lineTo(left + width, at)
                ctx.stroke()
                ctx.restore()
              }
            ],
            setCursor: [
              ({ cursor: { idx, left = -1 }, over }) =>
                setPointed(
                  idx == null || left < 0
                    ? undefined
                    : { at: idx, left: left + over.offsetLeft, isRight: left > over.clientWidth / 2 }
                )
            ]
          },
          scales: {
            x: {
              time: true,
              range: (_, low, high) => (isHourly ? [low - 1800, high + 1800] : [low - 43_200, high + 43_200])
            },
            y: { range: (_, __, high) => [0, Math.max(high, limit ?? 0) || 1] }
          },
          axes: [
            {
              ...axis,
              size: 32,
              grid: { show: false },
              // Named are the moments that have a bar.
              splits: ({ width }) => named(times, width - yAxisWidth),
              values: (_, at) => at.map((moment) => (isHourly ? hourOfDay : day).format(moment * 1000))
            },
            { ...axis, size: yAxisWidth, values: (_, at) => at.map((value) => format(value)) }
          ],
          series: [
            {},
            // The tallest is drawn first.
            ...shown
              .map(({ label, place }) => ({ label, fill: colour(colourOf(place)), paths, points: { show: false } }))
              .toReversed()
          ]
        },
        [times, ...stacked.toReversed()] as uPlot.AlignedData,
        element
      )
      plot.current = chart
      observer.observe(element)
    })
    return () => {
      isGone = true
      observer.disconnect()
      chart?.destroy()
      plot.current = undefined
      setPointed(undefined)
    }
  }, [shown, stacked, times, format, isHourly, limit, theme])
  const pick = (event: MouseEvent) => {
    const chart = plot.current
    if (chart === undefined || pointed === undefined || !(event.target instanceof Node)) return
    if (!chart.over.contains(event.target)) return
    const value = chart.posToVal(event.clientY - chart.over.getBoundingClientRect().top, "y")
    const hit = shown.findIndex((_, index) => value <= (stacked[index]?.[pointed.at] ?? 0))
    onPick?.(times[pointed.at] ?? 0, shown[hit]?.place)
  }
  const toggle = (place: number) => {
    const next = new Set(hidden)
    if (!next.delete(place)) next.add(place)
    setHidden(next)
  }
  const total = pointed === undefined ? 0 : (stacked.at(-1)?.[pointed.at] ?? 0)
  return (
    <>
      <div className="chart-place">
        {/* The table beside it has the same figures and links. */}
        <div
          ref={place}
          className={onPick === undefined ? "chart" : "chart picks"}
          role="img"
          aria-label={label}
          onClick={pick}
          onKeyDown={undefined}
        />
        {pointed === undefined ? null : (
          <div className={pointed.isRight ? "tip right" : "tip"} style={{ left: pointed.left }} aria-hidden="true">
            <strong>{(isHourly ? dayAndHour : wholeDay).format((times[pointed.at] ?? 0) * 1000)}</strong>
            {shown.map(({ label, place, values }) =>
              (values[pointed.at] ?? 0) === 0 ? null : (
                <span key={place}>
                  <i className="swatch" style={{ background: `var(${colourOf(place)})` }} />
                  {label}
                  <b>{format(values[pointed.at] ?? 0)}</b>
                </span>
              )
            )}
            {shown.length < 2 ? null : (
              <span>
                All <b>{format(total)}</b>
              </span>
            )}
          </div>
        )}
      </div>
      {series.length < 2 ? null : (
        <div className="key" role="group" aria-label="Shown in the chart">
          {series.map(({ label }, index) => (
            <button key={index} type="button" aria-pressed={!hidden.has(index)} onClick={() => toggle(index)}>
              <i className="swatch" style={{ background: `var(${colourOf(index)})` }} />
              {label}
            </button>
          ))}
        </div>
      )}
    </>
  )
}
