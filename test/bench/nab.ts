import * as fs from "node:fs"
import * as path from "node:path"
import * as zlib from "node:zlib"
import { type Point } from "#src/insights/anomalies/detection.ts"
import { parseSeries } from "#src/insights/anomalies/series-file.ts"

/** The Numenta Anomaly Benchmark, in the form of the README beside it; not a part of the project. */
export const nabDirectory = process.env.NAB_DIRECTORY ?? path.resolve(import.meta.dirname, "../../../shared/data/nab")

export const hasNab = fs.existsSync(path.join(nabDirectory, "labels.json"))

export interface NabSeries {
  readonly file: string
  /** The rows as they are scored, also those with the time of the row before. */
  readonly times: ReadonlyArray<number>
  /** The rows as they are judged: of equal times the first. */
  readonly points: ReadonlyArray<Point>
  /** First and last row of each window. */
  readonly windows: ReadonlyArray<readonly [first: number, last: number]>
}

interface Label {
  readonly file: string
  readonly windows: ReadonlyArray<readonly [string, string]>
}

export const folderOf = ({ file }: NabSeries): string => file.slice(0, file.indexOf("/"))

/** All series, or those whose names the pattern has. */
export const readNab = (pattern = /(?:)/, directory: string = nabDirectory): ReadonlyArray<NabSeries> =>
  (JSON.parse(fs.readFileSync(path.join(directory, "labels.json"), "utf8")) as ReadonlyArray<Label>)
    .filter(({ file }) => pattern.test(file))
    .map(({ file, windows }) => {
      const lines = zlib.gunzipSync(fs.readFileSync(path.join(directory, `${file}.gz`))).toString("utf8")
      const [header = "", ...rows] = lines.trimEnd().split("\n")
      const times = rows.map((row) => Date.parse(row.slice(0, row.indexOf(","))))
      const points = parseSeries(
        [header, ...rows.filter((_, row) => row === 0 || (times[row] ?? 0) > (times[row - 1] ?? 0))].join("\n")
      )
      if (typeof points === "string") throw new Error(`${file}, ${points}`)
      return {
        file,
        times,
        points,
        windows: windows.map(([first, last]) => [
          times.findIndex((at) => at >= Date.parse(first)),
          times.findLastIndex((at) => at <= Date.parse(last))
        ])
      }
    })

const probationShare = 0.15
const maxProbation = 750
const falseWeight = 0.11

/** 1 far before 0, 0 at 0, -1 far behind. */
const sigmoid = (position: number): number => (position > 3 ? -1 : 2 / (1 + Math.exp(5 * position)) - 1)

export interface NabScore {
  readonly sum: number
  readonly windows: number
}

/** A series' score in the standard profile: weights 1 for a window found or missed, 0.11 for a false detection. */
export const scoreDetections = (
  { times, windows }: Pick<NabSeries, "times" | "windows">,
  detections: ReadonlyArray<number>
): NabScore => {
  const probation = Math.min(Math.floor(times.length * probationShare), maxProbation)
  const scored = windows.filter(([, last]) => last >= probation)
  const found = new Set<number>()
  let sum = -scored.length
  const rows = detections.map((at) => times.indexOf(at)).toSorted((a, b) => a - b)
  for (const row of rows) {
    if (row < probation) continue
    const inside = scored.findIndex(([first, last]) => row >= first && row <= last)
    const [first, last] = scored[inside] ?? [0, 0]
    if (inside >= 0) {
      if (!found.has(inside)) sum += 1 + sigmoid(-(last - row + 1) / (last - first + 1)) / sigmoid(-1)
      found.add(inside)
      continue
    }
    const before = scored.findLast(([, end]) => end < row)
    sum += falseWeight * (before === undefined ? -1 : sigmoid((row - before[1]) / (before[1] - before[0])))
  }
  return { sum, windows: scored.length }
}

/** From 0, which silence has, to 100, the first row of every window and no other. */
export const normalised = (scores: ReadonlyArray<NabScore>): number => {
  const windows = scores.reduce((sum, score) => sum + score.windows, 0)
  return windows === 0
    ? Number.NaN
    : (100 * (scores.reduce((sum, score) => sum + score.sum, 0) + windows)) / (2 * windows)
}
