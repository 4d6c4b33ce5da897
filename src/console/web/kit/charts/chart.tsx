import { useEffect, useRef, useState } from "react"
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

interface OfBars {
  readonly format?: (value: number) => string
  /** Whether the moments are hours, shown in local time, and not days, which are those of UTC. */
  readonly isHourly?: boolean
  readonly label: string
  readonly series: ReadonlyArray<Series>
  /** Epoch seconds. */
  readonly times: ReadonlyArray<number>
}

/** Bars over time, one colour a series, stacked; the table beside a chart says the same in words. */
export const Bars = ({ format = usd, isHourly = false, label, series, times }: OfBars) => {
  const place = useRef<HTMLDivElement>(null)
  const theme = useThemeChanges()
  useEffect(() => {
    const element = place.current
    if (element === null || times.length === 0) return
    let chart: uPlot | undefined
    let isGone = false
    const observer = new ResizeObserver(() => chart?.setSize({ width: element.clientWidth, height: 200 }))
    void Promise.all([import("uplot"), import("uplot/dist/uPlot.min.css")]).then(([{ default: UPlot }]) => {
      if (isGone) return
      const style = getComputedStyle(element)
      const colour = (name: string) => style.getPropertyValue(name)
      // Each series stands on those before it, and the tallest is drawn first.
      const sums = times.map(() => 0)
      const stacked = series.map(({ values }) => values.map((value, at) => (sums[at] = (sums[at] ?? 0) + (value ?? 0))))
      const paths = UPlot.paths.bars!({ size: [0.8, 60], radius: 0.1 })
      const axis = { stroke: colour("--ink-3"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } }
      chart = new UPlot(
        {
          width: element.clientWidth,
          height: 200,
          legend: { show: false },
          cursor: { y: false, points: { show: false } },
          scales: {
            x: {
              time: true,
              range: (_, low, high) => (isHourly ? [low - 1800, high + 1800] : [low - 43_200, high + 43_200])
            },
            y: { range: (_, __, high) => [0, high || 1] }
          },
          axes: [
            {
              ...axis,
              size: 32,
              grid: { show: false },
              values: (_, at) => at.map((moment) => (isHourly ? hourOfDay : day).format(moment * 1000))
            },
            { ...axis, size: 70, values: (_, at) => at.map((value) => format(value)) }
          ],
          series: [
            {},
            ...series
              .map(({ label }, index) => ({
                label,
                fill: colour(colourOf(index)),
                paths,
                points: { show: false }
              }))
              .toReversed()
          ]
        },
        [times as Array<number>, ...stacked.toReversed()],
        element
      )
      observer.observe(element)
    })
    return () => {
      isGone = true
      observer.disconnect()
      chart?.destroy()
    }
  }, [series, times, format, isHourly, theme])
  return <div ref={place} className="chart" role="img" aria-label={label} />
}
