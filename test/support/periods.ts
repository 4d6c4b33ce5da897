import { Context, Effect, Layer } from "effect"
import { makeDatabase, type TestDatabase } from "./database.ts"
import { asSuperuser } from "./statements.ts"

export class PeriodsDatabase extends Context.Service<PeriodsDatabase, TestDatabase>()("test/PeriodsDatabase") {
  static readonly layer = Layer.effect(PeriodsDatabase, makeDatabase)
}

export const zones = [
  "UTC",
  "Europe/Berlin",
  "America/Havana",
  "America/Sao_Paulo",
  "Asia/Kathmandu",
  "Pacific/Apia",
  "Africa/Cairo",
  // Its clocks go on and back by half an hour.
  "Australia/Lord_Howe"
]
const lengths = [
  ["minute", null],
  ["hour", null],
  ["day", null],
  ["week", 3],
  ["month", 31],
  ["quarter", 2],
  ["year", 7]
] as const

/** Moments of the days around each change of the clocks in four years. */
const atChanges = (zone: string, every: string) => `(
  SELECT m FROM generate_series('2010-12-31'::timestamptz, '2014-12-31', '1 day') d
  CROSS JOIN generate_series(d, d + interval '1 day', '${every}') m
  WHERE d AT TIME ZONE '${zone}' - (d + interval '1 day') AT TIME ZONE '${zone}' <> interval '-1 day')`

/** The moments that are not in their period, or whose period another one than the next follows. */
const faultsAmong = Effect.fnUntraced(function* (period: string, zone: string, anchor: number | null, moments: string) {
  return yield* asSuperuser(
    yield* PeriodsDatabase,
    (sql) => sql<{ readonly moment: Date }>`
      WITH parts AS MATERIALIZED (
        SELECT m, p.starts, p.ends FROM ${sql.literal(moments)} AS moments(m)
        CROSS JOIN LATERAL budget_period(${period}, ${zone}, ${anchor}::integer, m) p),
      following AS (
        SELECT e.ends, n.starts FROM (SELECT DISTINCT ends FROM parts) e
        CROSS JOIN LATERAL budget_period(${period}, ${zone}, ${anchor}::integer, e.ends) n)
      SELECT m AS moment FROM parts LEFT JOIN following f USING (ends)
      WHERE (parts.starts <= m AND m < ends AND f.starts = ends) IS NOT TRUE LIMIT 3`
  )
})

/** The faults of all periods in a zone, at moments so far apart: over eight years, and around each change of the clocks. */
export const faultsOf = Effect.fnUntraced(function* (zone: string, every: string, everyAtChanges: string) {
  const faults: Array<string> = []
  for (const [period, anchor] of lengths) {
    for (const moments of [
      `generate_series('2010-12-31'::timestamptz, '2019-03-01', '${every}')`,
      atChanges(zone, everyAtChanges)
    ]) {
      for (const { moment } of yield* faultsAmong(period, zone, anchor, moments)) {
        faults.push(`${period} of ${moment.toISOString()}`)
      }
    }
  }
  return faults
})
