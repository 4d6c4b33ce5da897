import { Data, Effect, FileSystem } from "effect"
import { defaultParameters, detect, type Point } from "./detection.ts"

const usage = `npm run insights:detect -- FILE.csv

FILE.csv has the header "timestamp,value" and a row for each measurement: a time as 2026-11-22T13:00:00Z (with another
offset, or in UTC without one) later than that of the row before, and a decimal number. Rows may be missing. Each
episode that the rows before it make improbable is one JSON object on a line.`

/** The file or the command line cannot be used; the message says where and why. */
export class UnusableSeries extends Data.TaggedError("UnusableSeries")<{ readonly message: string }> {}

const timestamp = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(Z|[+-]\d\d:\d\d)?$/
const decimal = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?$/

const instantOf = (text: string): number => {
  const match = timestamp.exec(text)
  if (match === null) return Number.NaN
  // Date.parse takes the 31st of June for the 1st of July.
  if (new Date(text.slice(0, 10)).getUTCDate() !== Number(text.slice(8, 10))) return Number.NaN
  return Date.parse(match[1] === undefined ? `${text.replace(" ", "T")}Z` : text.replace(" ", "T"))
}

const shown = (text: string): string => JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)

/** The points of a file, or what is wrong with the first line that cannot be read. */
export const parseSeries = (text: string): ReadonlyArray<Point> | string => {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/)
  while (lines.length > 0 && lines.at(-1)?.trim() === "") lines.pop()
  if (lines[0]?.trim() !== "timestamp,value") {
    return `line 1: the header is ${shown(lines[0] ?? "")}; "timestamp,value" is required`
  }
  const points: Array<Point> = []
  for (const [index, line] of lines.entries()) {
    if (index === 0) continue
    const where = `line ${index + 1}`
    const cells = line.split(",").map((cell) => cell.trim())
    if (cells.length !== 2) return `${where}: ${shown(line)} has ${cells.length} columns; 2 are required`
    const [time = "", number = ""] = cells
    const at = instantOf(time)
    if (Number.isNaN(at)) return `${where}: ${shown(time)} is no time; write one as 2026-11-22T13:00:00Z`
    const value = decimal.test(number) ? Number(number) : Number.NaN
    if (!Number.isFinite(value)) return `${where}: ${shown(number)} is no decimal number`
    const before = points.at(-1)
    if (before !== undefined && at <= before.at) {
      return `${where}: ${time} is not later than the row before; times must increase strictly`
    }
    points.push({ at, value })
  }
  return points
}

const iso = (at: number): string => new Date(at).toISOString()
const rounded = (value: number): number => Number(value.toPrecision(9))

/** One line of the answer for each episode of a series. */
export const episodeLines = (points: ReadonlyArray<Point>): ReadonlyArray<string> =>
  detect(points, defaultParameters).map(({ actual, end, expected, kind, score, start }) =>
    JSON.stringify({
      start: iso(start),
      end: iso(end),
      score: Math.round(score * 100) / 100,
      kind,
      expected: rounded(expected),
      actual: rounded(actual)
    })
  )

/** `npm run insights:detect`: the episodes of a file, without the service and its database. */
export const detectInFile = Effect.fnUntraced(function* (args: ReadonlyArray<string>) {
  const [file, ...others] = args
  if (file === "--help" || file === "-h") return [usage]
  if (file === undefined || others.length > 0 || file.startsWith("--")) {
    return yield* new UnusableSeries({ message: usage })
  }
  const files = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(
    files.readFileString(file),
    ({ message }) => new UnusableSeries({ message: `${file} cannot be read: ${message}` })
  )
  const points = parseSeries(text)
  if (typeof points === "string") return yield* new UnusableSeries({ message: `${file}, ${points}.` })
  return episodeLines(points)
})
