import { evaluate, injections, makeSeries } from "./anomaly-series.ts"
import {
  folderOf,
  hasNab,
  nabDirectory,
  type NabScore,
  type NabSeries,
  normalised,
  readNab,
  scoreDetections
} from "./nab.ts"
import { type Parameters, defaultParameters, detect } from "#src/insights/anomalies/detection.ts"

const print = (text: string) => process.stdout.write(`${text}\n`)

const synthetic = Number(process.env.BENCH_SERIES ?? "600")
const grid: ReadonlyArray<Parameters> = [2.6, 2.8, 3, 3.3, 3.6].flatMap((threshold) =>
  [48, 72, 100].map((quietRows) => Object.assign({}, defaultParameters, { threshold, quietRows }))
)

const benchSynthetic = () => {
  const series = Array.from({ length: synthetic }, (_, seed) => makeSeries(seed))
  const { alertsPerTenantWeek, caughtShare, found, kinds, medianHoursToFind, precision, recall } = evaluate(series)
  print(`${synthetic} synthetic series of hourly cost:`)
  print(`  precision ${precision.toFixed(3)}, recall ${recall.toFixed(3)}`)
  print(`  ${(100 * caughtShare).toFixed(0)} % of the dollars until midnight come after the alert`)
  print(`  median of ${medianHoursToFind} hours until the alert`)
  print(`  ${alertsPerTenantWeek.toFixed(2)} alerts a week of a tenant with ten series`)
  for (const injection of injections) {
    const { false: wrong, found: right, missed } = found[injection]
    print(`  ${injection}: ${right} of ${right + missed} found, ${wrong} false alerts`)
  }
  for (const [kind, count] of Object.entries(kinds).toSorted()) print(`    ${kind}: ${count}`)
}

const scoreOf = (series: NabSeries, parameters: Parameters): NabScore =>
  scoreDetections(
    series,
    detect(series.points, parameters).map(({ start }) => start)
  )

/** Scores each folder with the parameters that are best on the others. */
const crossValidate = (series: ReadonlyArray<NabSeries>): number => {
  const scores = grid.map((parameters) => series.map((one) => scoreOf(one, parameters)))
  const folders = [...new Set(series.map(folderOf))]
  const held = folders.flatMap((folder) => {
    const within = (of: ReadonlyArray<NabScore>, isHeld: boolean) =>
      of.filter((_, index) => (folderOf(series[index] as NabSeries) === folder) === isHeld)
    const ranked = scores.toSorted((a, b) => normalised(within(b, false)) - normalised(within(a, false)))
    return within(ranked[0] ?? [], true)
  })
  return normalised(held)
}

const benchNab = () => {
  if (!hasNab) {
    print(`NAB: no labels.json in ${nabDirectory}; name its directory in NAB_DIRECTORY.`)
    return
  }
  const series = readNab()
  const scores = series.map((one) => scoreOf(one, defaultParameters))
  print(`NAB, ${series.length} series, standard profile:`)
  print(`  score ${normalised(scores).toFixed(1)}, cross-validated over folders ${crossValidate(series).toFixed(1)}`)
  for (const [folder, rows] of Map.groupBy(series.keys(), (index) => folderOf(series[index] as NabSeries))) {
    const of = rows.map((index) => scores[index] as NabScore)
    const sum = of.reduce((total, { sum }) => total + sum, 0)
    const windows = of.reduce((total, { windows }) => total + windows, 0)
    print(`  ${folder}: ${windows === 0 ? `${sum.toFixed(2)} without a window` : normalised(of).toFixed(1)}`)
  }
}

benchSynthetic()
benchNab()
