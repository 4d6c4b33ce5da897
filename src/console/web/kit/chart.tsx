import { useEffect, useRef } from "react"
import type uPlot from "uplot"
import { usd } from "./format.tsx"

/** One series of a chart: a value for each moment. */
export interface Series {
  readonly label: string
  readonly values: ReadonlyArray<number | null>
}

const colours = ["--c1", "--c2", "--c3", "--c4", "--c5"]

const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" })

/** Bars over time, one colour a series, stacked; the table beside a chart says the same in words. */
export const Bars = ({
  format = usd,
  label,
  series,
  times
}: {
  readonly format?: (value: number) => string
  readonly label: string
  readonly series: ReadonlyArray<Series>
  /** Epoch seconds. */
  readonly times: ReadonlyArray<number>
}) => {
  const place = useRef<HTMLDivElement>(null)
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
            x: { time: true, range: (_, low, high) => [low - 43_200, high + 43_200] },
            y: { range: (_, __, high) => [0, high || 1] }
          },
          axes: [
            { ...axis, grid: { show: false }, values: (_, at) => at.map((moment) => day.format(moment * 1000)) },
            { ...axis, size: 70, values: (_, at) => at.map((value) => format(value)) }
          ],
          series: [
            {},
            ...series
              .map(({ label }, index) => ({
                label,
                fill: colour(colours[index % colours.length]!),
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
  }, [series, times, format])
  return <div ref={place} className="chart" role="img" aria-label={label} />
}
