import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { faultsOf, PeriodsDatabase, zones } from "../../support/periods.ts"
import { asSuperuser } from "../../support/statements.ts"

const periodOf = Effect.fnUntraced(function* (period: string, zone: string, anchor: number | null, moment: string) {
  const [row] = yield* asSuperuser(
    yield* PeriodsDatabase,
    (sql) => sql<{ readonly starts: Date; readonly ends: Date }>`
      SELECT starts, ends FROM budget_period(${period}, ${zone}, ${anchor}::integer, ${moment}::text::timestamptz)`
  )
  return [row?.starts.toISOString().replace(".000Z", "Z"), row?.ends.toISOString().replace(".000Z", "Z")]
})

const table = [
  [
    "an hour of a zone that is half an hour off",
    "hour",
    "Asia/Kolkata",
    null,
    "2024-03-30T12:10:00Z",
    "2024-03-30T11:30:00Z",
    "2024-03-30T12:30:00Z"
  ],
  [
    "a day of 23 hours",
    "day",
    "Europe/Berlin",
    null,
    "2024-03-31T10:00:00Z",
    "2024-03-30T23:00:00Z",
    "2024-03-31T22:00:00Z"
  ],
  [
    "a day of 25 hours",
    "day",
    "Europe/Berlin",
    null,
    "2024-10-27T10:00:00Z",
    "2024-10-26T22:00:00Z",
    "2024-10-27T23:00:00Z"
  ],
  [
    "the hour that comes twice, first",
    "hour",
    "Europe/Berlin",
    null,
    "2024-10-27T00:30:00Z",
    "2024-10-27T00:00:00Z",
    "2024-10-27T01:00:00Z"
  ],
  [
    "the hour that comes twice, again",
    "hour",
    "Europe/Berlin",
    null,
    "2024-10-27T01:30:00Z",
    "2024-10-27T01:00:00Z",
    "2024-10-27T02:00:00Z"
  ],
  [
    "a midnight that comes twice, first",
    "day",
    "America/Havana",
    null,
    "2025-11-02T04:30:00Z",
    "2025-11-02T04:00:00Z",
    "2025-11-03T05:00:00Z"
  ],
  [
    "a midnight that comes twice, again",
    "day",
    "America/Havana",
    null,
    "2025-11-02T05:30:00Z",
    "2025-11-02T04:00:00Z",
    "2025-11-03T05:00:00Z"
  ],
  [
    "a midnight that clocks skip",
    "day",
    "America/Sao_Paulo",
    null,
    "2018-11-04T03:30:00Z",
    "2018-11-04T03:00:00Z",
    "2018-11-05T02:00:00Z"
  ],
  [
    "clocks that go back over midnight",
    "day",
    "America/Sao_Paulo",
    null,
    "2018-02-18T02:30:00Z",
    "2018-02-17T02:00:00Z",
    "2018-02-18T03:00:00Z"
  ],
  [
    "a date that never was: the one before",
    "day",
    "Pacific/Apia",
    null,
    "2011-12-30T09:59:00Z",
    "2011-12-29T10:00:00Z",
    "2011-12-30T10:00:00Z"
  ],
  [
    "a date that never was: the one after",
    "day",
    "Pacific/Apia",
    null,
    "2011-12-30T10:01:00Z",
    "2011-12-30T10:00:00Z",
    "2011-12-31T10:00:00Z"
  ],
  [
    "a week from Monday over the change of clocks",
    "week",
    "Europe/Berlin",
    1,
    "2024-03-31T12:00:00Z",
    "2024-03-24T23:00:00Z",
    "2024-03-31T22:00:00Z"
  ],
  ["a week from Sunday", "week", "UTC", 7, "2024-03-31T00:00:00Z", "2024-03-31T00:00:00Z", "2024-04-07T00:00:00Z"],
  [
    "a week from Sunday, the day before",
    "week",
    "UTC",
    7,
    "2024-03-30T23:59:59Z",
    "2024-03-24T00:00:00Z",
    "2024-03-31T00:00:00Z"
  ],
  [
    "February of a leap year",
    "month",
    "UTC",
    1,
    "2024-02-29T23:59:59Z",
    "2024-02-01T00:00:00Z",
    "2024-03-01T00:00:00Z"
  ],
  [
    "February of another year",
    "month",
    "UTC",
    1,
    "2023-02-28T23:59:59Z",
    "2023-02-01T00:00:00Z",
    "2023-03-01T00:00:00Z"
  ],
  [
    "from the 31st, on the leap day",
    "month",
    "UTC",
    31,
    "2024-02-29T12:00:00Z",
    "2024-02-29T00:00:00Z",
    "2024-03-31T00:00:00Z"
  ],
  [
    "from the 31st, before the leap day",
    "month",
    "UTC",
    31,
    "2024-02-28T12:00:00Z",
    "2024-01-31T00:00:00Z",
    "2024-02-29T00:00:00Z"
  ],
  [
    "from the 31st, in a month of 30 days",
    "month",
    "UTC",
    31,
    "2024-04-30T00:00:00Z",
    "2024-04-30T00:00:00Z",
    "2024-05-31T00:00:00Z"
  ],
  [
    "from the 15th, over the year's end",
    "month",
    "UTC",
    15,
    "2024-01-14T23:59:59Z",
    "2023-12-15T00:00:00Z",
    "2024-01-15T00:00:00Z"
  ],
  ["a quarter", "quarter", "UTC", 1, "2024-05-31T12:00:00Z", "2024-04-01T00:00:00Z", "2024-07-01T00:00:00Z"],
  [
    "a quarter from February",
    "quarter",
    "UTC",
    2,
    "2024-01-31T12:00:00Z",
    "2023-11-01T00:00:00Z",
    "2024-02-01T00:00:00Z"
  ],
  ["a year from April", "year", "UTC", 4, "2024-03-31T23:59:59Z", "2023-04-01T00:00:00Z", "2024-04-01T00:00:00Z"],
  [
    "a year in a zone ahead",
    "year",
    "Pacific/Kiritimati",
    1,
    "2023-12-31T10:00:00Z",
    "2023-12-31T10:00:00Z",
    "2024-12-31T10:00:00Z"
  ]
] as const

layer(PeriodsDatabase.layer, { excludeTestServices: true, timeout: "60 seconds" })("a period", (it) => {
  for (const [what, period, zone, anchor, moment, starts, ends] of table) {
    // Invariant L10
    it.effect(`${what}: ${moment} in ${zone}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* periodOf(period, zone, anchor, moment), [starts, ends])
      })
    )
  }

  for (const zone of zones) {
    // Invariant L10
    it.effect(`parts time without a gap or an overlap in ${zone}`, () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* faultsOf(zone, "119 hours", "31 minutes"), [])
      })
    )
  }
})
