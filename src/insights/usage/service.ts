import { BigDecimal, Context, DateTime, Effect, Layer, Option, Record, Stream, Struct } from "effect"
import { AgentId } from "../../agents/agents/domain.ts"
import { type CountedCharges } from "../../budgets/caps/utilization.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../../kernel/authority/principal.ts"
import { slice } from "../../kernel/http/page.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { CurrentReading, onReplica, ReadReplica } from "../../platform/database/read-replica.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { lateDaysOf, Settings } from "../../platform/settings/settings.ts"
import {
  noValue,
  type Range,
  rangeOf,
  type RequestFilter,
  type RequestSort,
  type UsageDetail,
  type UsageFilter,
  UsageNotFound,
  type UsagePlace,
  type UsageRange,
  type UsageRow
} from "./domain.ts"
import { csvHeader, type DetailedRow, type ExportPlace, type ListedRow, UsageRepository } from "./repository.ts"

export type UsageFormat = "jsonl" | "csv"

const atOnce = 4000
const monthsAhead = 4

/** The range that a request is about. */
export const requestedRange = Effect.fnUntraced(function* (
  given: UsageRange
): Effect.fn.Return<Range, ValidationFailed> {
  const range = rangeOf(given, yield* DateTime.now)
  return "message" in range ? yield* new ValidationFailed({ errors: [range] }) : range
})

/** A filter narrowed to what the caller may see: its tenant, and of an agent its own usage. */
export const visibleUsage = <Filter extends UsageFilter>(
  principal: Principal,
  filter: Filter
): Effect.Effect<Filter & UsageFilter, Forbidden> => {
  const { kind, name, tenantId } = principal
  if (tenantId !== undefined && filter.tenantId !== undefined && filter.tenantId !== tenantId) {
    return Effect.fail(new Forbidden({ missing: [], detail: "The credential is of another tenant." }))
  }
  const within = tenantId === undefined ? filter : { ...filter, tenantId }
  if (kind !== "agent") return Effect.succeed(within)
  const agentId = AgentId.make(name.slice("agent:".length))
  return filter.agentId === undefined || filter.agentId === agentId
    ? Effect.succeed({ ...within, agentId })
    : Effect.fail(new Forbidden({ missing: [], detail: "The credential is of another agent." }))
}

/** The fault of a range that needs rows which were dropped. */
export const droppedRows = (slot: "payload" | "query", keptFrom: string): ValidationFailed =>
  new ValidationFailed({
    errors: [
      {
        path: [slot, "from"],
        message: `Expected ${keptFrom} in UTC or later; the charges before it were dropped after Usage:RetentionDays`
      }
    ]
  })

/** The filter that the charges pass that a cap counts. */
export const filterOf = ({ dimensions, tenantId }: CountedCharges): UsageFilter => {
  const filter: object = Record.map(dimensions, (value) => value ?? noValue)
  return tenantId === undefined ? filter : { ...filter, tenantId }
}

export class Usage extends Context.Service<Usage>()("app/insights/Usage", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const replica = yield* ReadReplica
    const fromReplica = onReplica(replica, "usage-list")
    const repository = yield* UsageRepository
    const { usage } = yield* Settings
    const { retentionDays } = usage

    const makePartitions = repository.makePartitions(lateDaysOf(usage), monthsAhead)
    yield* repeatJob("make partitions of usage rows", "1 hour", makePartitions)
    // Both take the same lock, and the first would not wait for the second.
    const tidy = Effect.andThen(repository.dropMonths(retentionDays), repository.packMonth)
    yield* repeatJob("drop old months of usage rows and pack indexes of others", "1 hour", Effect.asVoid(tidy))

    return {
      list: Effect.fn("Usage.list")(function* (
        filter: RequestFilter,
        given: UsageRange,
        after: UsagePlace | undefined,
        limit: number,
        search: string | undefined,
        sort: RequestSort = "-occurredAt"
      ) {
        const principal = yield* CurrentPrincipal
        const visible = yield* visibleUsage(principal, filter)
        const range = yield* requestedRange(given)
        const scope = scopeOf(principal)
        const asked = { filter: visible, range, after, limit: limit + 1, search, isUp: sort === "occurredAt" }
        const { end, rows } = yield* fromReplica(database.read(scope, repository.list(asked)))
        const { items, nextCursor } = slice(rows, limit, ({ id, place }): UsagePlace => [place, id])
        return { items: items.map(toRow), nextCursor: nextCursor ?? end ?? null }
      }),

      get: Effect.fn("Usage.get")(function* (id: string) {
        const principal = yield* CurrentPrincipal
        const visible = yield* visibleUsage(principal, {})
        const found = yield* database.read(scopeOf(principal), repository.find(id, visible))
        return found === undefined ? yield* new UsageNotFound({}) : toDetail(found)
      }),

      /** The rows as bytes, read while they are sent. */
      export: Effect.fn("Usage.export")(function* (filter: RequestFilter, given: UsageRange, format: UsageFormat) {
        const principal = yield* CurrentPrincipal
        const visible = yield* visibleUsage(principal, filter)
        const range = yield* requestedRange(given)
        const scope = scopeOf(principal)
        const reading = yield* replica.begin("usage-export")
        const tenants = yield* Effect.orDie(database.read(scope, repository.exportTenants(visible))).pipe(
          Effect.provideService(CurrentReading, reading)
        )
        const chunksOf = (tenantId: TenantId) =>
          Stream.paginate({ tenantId }, (after: ExportPlace) =>
            Effect.map(
              database.snapshot(scope, repository.exportChunk(visible, range, format, after, atOnce)),
              (found) => {
                const last = found.at(-1)
                return [
                  [found.map(({ lines }) => lines)],
                  last === undefined
                    ? Option.none<ExportPlace>()
                    : Option.some({ tenantId, moment: last.lastMoment, id: last.lastId })
                ] as const
              }
            )
          )
        const chunks = Stream.fromIterable(tenants).pipe(
          Stream.flatMap(chunksOf),
          Stream.provideService(CurrentReading, reading),
          Stream.tapCause((cause) => Effect.logError("An export of usage broke off", cause)),
          // The next rows are read while these are on their way.
          Stream.buffer({ capacity: 1 }),
          Stream.flattenIterable
        )
        const [from, to] = [range.from, range.to].map((at) => DateTime.formatIsoDateUtc(DateTime.makeUnsafe(at)))
        return {
          fileName: `usage-${from}-${to}.${format}`,
          contentType: format === "csv" ? "text/csv; charset=utf-8" : "application/x-ndjson",
          content: format === "csv" ? Stream.concat(Stream.make(csvHeader), chunks) : chunks
        }
      }),

      /** Drops the months that are older than `Usage:RetentionDays`; answers them. */
      retire: repository.dropMonths(retentionDays)
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(UsageRepository.layer))
}

const usdDecimals = 9
export const netUsd = (nanoUsd: bigint): BigDecimal.BigDecimal => BigDecimal.make(nanoUsd, usdDecimals)

const numberOf = (count: bigint | null): number | null => (count === null ? null : Number(count))

/** The amounts and counts of a row as the wire has them. */
const figuresOf = (row: Omit<ListedRow, "place">) => ({
  costUsd: netUsd(row.costUsd),
  inputTokens: numberOf(row.inputTokens),
  outputTokens: numberOf(row.outputTokens),
  cachedInputTokens: numberOf(row.cachedInputTokens),
  cacheWriteTokens: numberOf(row.cacheWriteTokens),
  reasoningTokens: numberOf(row.reasoningTokens)
})

const toRow = (row: ListedRow): UsageRow => ({ ...Struct.omit(row, ["place"]), ...figuresOf(row) })

const toDetail = (row: DetailedRow): UsageDetail => ({
  ...Struct.omit(row, ["rates"]),
  ...figuresOf(row),
  cacheWrite1hTokens: numberOf(row.cacheWrite1hTokens),
  savedUsd: netUsd(row.savedUsd),
  pricing: pricingOf(row),
  charges: chargesOf(row)
})

/** What was charged by class of tokens and by unit; what the units explain is no part of the rest. */
const chargesOf = ({ charges, priceTerms }: DetailedRow): UsageDetail["charges"] => {
  const units = priceTerms?.units ?? []
  const byUnit = units.reduce((sum, { costUsd }) => sum + costUsd, 0n)
  return charges.flatMap((stored): UsageDetail["charges"] => {
    const { costUsd, meter } = stored
    if (meter !== "spend" || units.length === 0 || byUnit > costUsd) return [toCharge(stored)]
    const own = units.map((charge): UsageDetail["charges"][number] => ({
      meter: charge.unit,
      tokens: null,
      usdPerMTok: null,
      units: charge.quantity,
      usdPerUnit: netUsd(charge.usdPerUnit),
      costUsd: netUsd(charge.costUsd)
    }))
    return byUnit === costUsd ? own : own.concat(toCharge({ ...stored, costUsd: costUsd - byUnit }))
  })
}

/** Hours of a GPU are counted to 12 decimals. */
const perGpuHour = 1e12

const toCharge = ({
  costUsd,
  meter,
  quantity,
  rate
}: DetailedRow["charges"][number]): UsageDetail["charges"][number] => {
  const isTime = meter === "gpu-time"
  const price = rate === null ? null : netUsd(rate)
  return {
    meter,
    tokens: isTime ? null : numberOf(quantity),
    usdPerMTok: isTime ? null : price,
    units: isTime && quantity !== null ? Number(quantity) / perGpuHour : null,
    usdPerUnit: isTime ? price : null,
    costUsd: netUsd(costUsd)
  }
}

const pricingOf = ({ priceTerms, rates }: DetailedRow): UsageDetail["pricing"] => {
  if (rates === null) return priceTerms?.cost === "reported" ? "reported" : "unknown"
  if (rates.gpuHour !== undefined) return "gpu-time"
  if (Object.values(rates).some((rate) => rate !== "0")) return "tokens"
  return priceTerms?.units === undefined ? "free" : "units"
}
