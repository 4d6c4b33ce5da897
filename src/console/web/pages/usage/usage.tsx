import { type ReactNode, useMemo } from "react"
import { Link, useLocation, useSearchParams } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { ButtonLink, CopyCurl, Download } from "../../kit/actions.tsx"
import { Bars, colourOf, type Series } from "../../kit/charts/chart.tsx"
import { count, milliseconds, Moment, percent, Usd } from "../../kit/format.tsx"
import { Choice, FilterChoices, nothingMatches, useFilters, withMembers } from "../../kit/lists/filters.tsx"
import { dateIn, type Range, rangeFilters, useRange } from "../../kit/lists/range.tsx"
import { type Column, Table } from "../../kit/lists/table.tsx"
import { useLabelled } from "../../kit/names/names.tsx"
import { Page } from "../../kit/page.tsx"
import { Answered, Called, Card, Nothing, PercentChange, Soft, Tile } from "../../kit/parts.tsx"
import { type Dimension, dimensions, nameOfItem, useUsageFilters } from "./usage-filters.tsx"

type Item = Row<"insights.by">
type UsageTotals = Answer<"insights.overview">["totals"]

const shownSeries = 5
const appearsSoon = "Calls through the gateway appear here a few seconds after they end."

/** The series of the chart: the dearest items, and everything else as one. */
const seriesOf = (items: ReadonlyArray<Item>, { timeZone }: Range, isHourly: boolean) => {
  const placeOf = (at: string) => (isHourly ? at.slice(0, 13) : dateIn(timeZone, Date.parse(at)))
  const places = [...new Set(items.flatMap(({ series }) => series.map(({ start }) => placeOf(start))))].toSorted()
  const valuesOf = (of: ReadonlyArray<Item>) => {
    const sums = new Map<string, number>()
    for (const { costUsd, start } of of.flatMap(({ series }) => series)) {
      sums.set(placeOf(start), (sums.get(placeOf(start)) ?? 0) + costUsd)
    }
    return places.map((place) => sums.get(place) ?? 0)
  }
  const top = items.slice(0, shownSeries).map((item): Series => ({ label: nameOfItem(item), values: valuesOf([item]) }))
  const rest = items.slice(shownSeries)
  return {
    times: places.map((place) => Date.parse(isHourly ? `${place}:00:00Z` : `${place}T00:00:00Z`) / 1000),
    series: rest.length === 0 ? top : [...top, { label: "Everything else", values: valuesOf(rest) }]
  }
}

interface Charted {
  /** Leads to the requests of a day, of one item or of all. */
  readonly onPick: (day: string, key: string | undefined) => void
  readonly data: Answer<"insights.by">
  readonly isHourly: boolean
  readonly range: Range
  readonly title: string
}

const Chart = ({ data, isHourly, onPick, range, title }: Charted) => {
  const { series, times } = useMemo(() => seriesOf(data.items, range, isHourly), [data, range, isHourly])
  return (
    <Bars
      label={`${title}; the table below has the same figures`}
      isHourly={isHourly}
      times={times}
      series={series}
      onPick={(time, place = shownSeries) => {
        const key = place < shownSeries ? data.items[place]?.key : undefined
        onPick(dateIn(isHourly ? range.timeZone : "UTC", time * 1000), key ?? undefined)
      }}
    />
  )
}

interface Compared {
  readonly isNeutral?: boolean
  readonly now: number
  readonly then: number | undefined
}

const Change = ({ isNeutral, now, then }: Compared) =>
  then === undefined || then === 0 ? (
    <Soft>{then === undefined ? "…" : "new"}</Soft>
  ) : (
    <PercentChange isNeutral={isNeutral} percent={(100 * (now - then)) / then} />
  )

interface Total {
  readonly before: Range
  readonly filters: object
  readonly range: Range
  /** Where the requests that failed are listed. */
  readonly toFailed: string
}

const Totals = ({ before, filters, range, toFailed }: Total) => (
  <Called name="insights.overview" input={{ query: { ...filters, ...range } }} everySeconds={60} keepsPrevious rows={2}>
    {({ previous, totals }) => (
      <div className="grid">
        <Tile
          label="Cost"
          value={<Usd amount={totals.costUsd} />}
          detail={
            <>
              <Change now={totals.costUsd} then={previous.costUsd} /> vs. <Usd amount={previous.costUsd} /> in{" "}
              {dates(before)}
            </>
          }
        />
        <Tile
          label="Requests"
          value={count(totals.requests)}
          detail={
            <>
              <Change isNeutral now={totals.requests} then={previous.requests} /> vs. {count(previous.requests)} in{" "}
              {dates(before)}
            </>
          }
        />
        <Tile
          href={toFailed}
          label="Errors"
          value={count(totals.errors)}
          detail={
            totals.requests === 0
              ? "of no requests"
              : `${percent((100 * totals.errors) / totals.requests, 2)} of requests`
          }
        />
        <Tile
          label="Saved by caches"
          value={<Usd amount={totals.savingsUsd} />}
          detail={`${count(totals.cachedInputTokens)} cached input tokens`}
        />
      </div>
    )}
  </Called>
)

const date = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" })

/** The days of a range that has ended, both included. */
const dates = ({ from, timeZone, to = from }: Range): string =>
  [Date.parse(from), Date.parse(to) - 1].map((at) => date.format(new Date(dateIn(timeZone, at)))).join(" to ")

const sorts = ["costUsd", "-costUsd", "requests", "-requests"] as const

/** Where the money went: by day and by one dimension, with the figures as a table. */
export default function Usage() {
  const [search] = useSearchParams()
  const chosen = useRange()
  const { before, isHourly, range } = chosen
  const { filters, isFiltered, query } = useUsageFilters()
  const { set, values } = useFilters(["by", "compare", "sort"])
  const dimension: Dimension = values.by !== undefined && values.by in dimensions ? (values.by as Dimension) : "model"
  const compares = values.compare !== undefined
  const [filter, title] = dimensions[dimension]
  // What one item's cost is made of, by the dimension that tells most of it.
  const next: Dimension = dimension === "model" ? "agent" : "model"
  const costs = `Cost by ${isHourly ? "hour" : "day"} and ${title.toLowerCase()}`
  const sort = sorts.find((one) => one === values.sort)
  const input = {
    params: { dimension },
    query: { ...query, ...range, limit: 200, ...(sort === undefined ? {} : { sort }) }
  }
  const asked = useLabelled(useCall("insights.by", input, { everySeconds: 60, keepsPrevious: true }))
  const sums = useCall(
    "insights.overview",
    { query: { ...query, ...range } },
    { everySeconds: 60, keepsPrevious: true }
  ).data
  /** The figures of all rows together, where there are several. */
  const totalOf = (show: (totals: UsageTotals, previous: UsageTotals) => ReactNode): ReactNode =>
    sums === undefined || (asked.data?.items.length ?? 0) < 2 ? undefined : show(sums.totals, sums.previous)
  const [, go] = useLocation()
  /** The requests behind a figure. */
  const toRequests = (members: Readonly<Record<string, string>>) =>
    `/requests?${withMembers(search, { by: "", compare: "", sort: "", ...members })}`
  const earlier = { params: { dimension }, query: { ...query, ...before, limit: 200 } }
  const then = useCall("insights.by", earlier, { enabled: compares })
  const costBefore = new Map(then.data?.items.map(({ costUsd, key }) => [key, costUsd]))
  const exported = { query: { ...query, ...range, format: "csv" } }
  const ofBill = new URLSearchParams({
    ...(chosen.preset === "last-month" ? { month: dateIn(range.timeZone, Date.parse(range.from)).slice(0, 7) } : {}),
    ...(query.tenantId === undefined ? {} : { tenantId: query.tenantId })
  })
  const billed = ofBill.size === 0 ? "" : `?${ofBill}`
  const compared: ReadonlyArray<Column<Item>> = [
    {
      title: "Before",
      isNumber: true,
      total: totalOf((_, { costUsd }) => <Usd amount={costUsd} />),
      cell: ({ key }) => <Usd amount={costBefore.get(key) ?? 0} />
    },
    {
      title: "Change",
      isNumber: true,
      total: totalOf(({ costUsd }, previous) => <Change now={costUsd} then={previous.costUsd} />),
      cell: ({ costUsd, key }) => <Change now={costUsd} then={then.data && (costBefore.get(key) ?? 0)} />
    }
  ]
  return (
    <Page
      title="Usage"
      lead={
        asked.data === undefined ? (
          "Where the money went."
        ) : (
          <>
            What was charged, net of refunds, by days of {range.timeZone}, as of <Moment at={asked.data.asOf} />.
          </>
        )
      }
      actions={
        <>
          <CopyCurl name="insights.by" input={input} />
          <Download
            name="usage.export"
            input={exported}
            text="Export requests"
            title="Each request with what it was charged, as CSV; refunds are in the billing report"
          />
          <ButtonLink href={`/billing${billed}`}>Billing report</ButtonLink>
        </>
      }
    >
      <div className="filters">
        <Choice
          isRequired
          label="Group by"
          value={dimension}
          options={Object.entries(dimensions).map(([name, [, text]]) => [name, text.toLowerCase()] as const)}
          onChange={(value) => set("by", value)}
        />
        <FilterChoices
          filters={[
            ...rangeFilters(chosen),
            <label key="compare" className={compares ? "pill on" : "pill"}>
              <input
                type="checkbox"
                checked={compares}
                onChange={(event) => set("compare", event.target.checked ? "previous" : "")}
              />
              Compare with {dates(before)}
            </label>,
            ...filters
          ]}
        />
      </div>
      <Totals before={before} filters={query} range={range} toFailed={toRequests({ failed: "true" })} />
      <Answered asked={asked} rows={8}>
        {(data) =>
          data.items.length === 0 ? (
            <section className="card">
              <Nothing said={isFiltered ? nothingMatches : ["Nothing was spent in this range", appearsSoon]} />
            </section>
          ) : (
            <>
              <Card title={costs}>
                <div className="in stack">
                  <Chart
                    data={data}
                    range={range}
                    isHourly={isHourly}
                    title={costs}
                    onPick={(day, key) =>
                      go(
                        toRequests({
                          range: "custom",
                          first: day,
                          last: day,
                          ...(key === undefined ? {} : { [filter]: key })
                        })
                      )
                    }
                  />
                </div>
              </Card>
              <section className="card" aria-busy={asked.isPlaceholderData}>
                <Table
                  label={`Cost by ${title.toLowerCase()}`}
                  rows={data.items}
                  keyOf={({ key }) => key ?? ""}
                  sorted={{ by: sort ?? "-costUsd", onSort: (sort) => set("sort", sort) }}
                  columns={[
                    {
                      title,
                      total: totalOf(() => "Total"),
                      cell: (item) => {
                        const at = data.items.indexOf(item)
                        return (
                          <>
                            <i
                              className="swatch"
                              style={{ background: `var(${colourOf(Math.min(at, shownSeries))})` }}
                            />
                            {item.key === null ? (
                              <Soft>none</Soft>
                            ) : (
                              <Link
                                href={`/usage?${withMembers(search, { [filter]: item.key, by: next, sort: "" })}`}
                                title={`${nameOfItem(item)} by ${dimensions[next][1].toLowerCase()}`}
                              >
                                {nameOfItem(item)}
                              </Link>
                            )}
                          </>
                        )
                      }
                    },
                    {
                      title: "Cost",
                      isNumber: true,
                      sort: "costUsd",
                      total: totalOf(({ costUsd }) => <Usd amount={costUsd} />),
                      cell: ({ costUsd }) => <Usd amount={costUsd} />
                    },
                    { title: "Share", isNumber: true, cell: ({ sharePercent }) => percent(sharePercent) },
                    ...(compares ? compared : []),
                    {
                      title: "Requests",
                      isNumber: true,
                      sort: "requests",
                      total: totalOf(({ requests }) => count(requests)),
                      cell: ({ key, requests: all }) =>
                        key === null ? count(all) : <Link href={toRequests({ [filter]: key })}>{count(all)}</Link>
                    },
                    {
                      title: "Cached",
                      isNumber: true,
                      total: totalOf(({ cachedInputTokens, inputTokens }) =>
                        percent(inputTokens === 0 ? 0 : (100 * cachedInputTokens) / inputTokens)
                      ),
                      cell: ({ cachedInputPercent, cachedInputTokens, inputTokens }) => (
                        <span title={`${count(cachedInputTokens)} of ${count(inputTokens)} input tokens from caches`}>
                          {percent(cachedInputPercent)}
                        </span>
                      )
                    },
                    {
                      title: "Saved",
                      isNumber: true,
                      total: totalOf(({ savingsUsd }) => <Usd amount={savingsUsd} />),
                      cell: ({ savingsUsd }) => <Usd amount={savingsUsd} />
                    },
                    {
                      title: "Errors",
                      isNumber: true,
                      total: totalOf(({ errors, requests: all }) => percent(all === 0 ? 0 : (100 * errors) / all, 2)),
                      cell: ({ errorRate, key }) =>
                        errorRate === 0 || key === null ? (
                          percent(errorRate * 100, 2)
                        ) : (
                          <Link href={toRequests({ [filter]: key, failed: "true" })}>
                            {percent(errorRate * 100, 2)}
                          </Link>
                        )
                    },
                    { title: "p50", isNumber: true, cell: ({ p50LatencyMs }) => milliseconds(p50LatencyMs) },
                    { title: "p95", isNumber: true, cell: ({ p95LatencyMs }) => milliseconds(p95LatencyMs) }
                  ]}
                />
                {data.nextCursor === null ? null : (
                  <p className="pager">
                    <small>The first 200 are shown.</small>
                  </p>
                )}
              </section>
            </>
          )
        }
      </Answered>
    </Page>
  )
}
