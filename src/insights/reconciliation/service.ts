import { Context, DateTime, Effect, Layer } from "effect"
import { type AuditDraft } from "../../audit/log/domain.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { type BilledLine, BillFailure, dayMillis, dayOf } from "../../gateway/bills/domain.ts"
import { ProviderBills } from "../../gateway/bills/service.ts"
import { type ConfiguredBilling, type ConfiguredProvider } from "../../gateway/configuration/configuration-domain.ts"
import { GatewayConfiguration } from "../../gateway/configuration/service.ts"
import { slice } from "../../kernel/http/page.ts"
import { usdOf } from "../../kernel/usd.ts"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Anomalies } from "../anomalies/service.ts"
import { type UsageRange } from "../usage/domain.ts"
import { netUsd, requestedRange } from "../usage/service.ts"
import { type Compared, compareDay, type Counted, type OwnKeys } from "./comparison-domain.ts"
import { type BillState, NoBilling, type Reconciliation, type ReconciliationPosition } from "./domain.ts"
import { type Days, type Reading, ReconciliationRepository, type StoredLine } from "./repository.ts"

/** The longest range that both vendors report at once. */
const windowDays = 31
/** Figures of a day come late; after so many seconds from its end they count as final. */
const settleSeconds = 3 * 86_400
const everySeconds = 6 * 3600
const retrySeconds = 900
const refusedSeconds = 3600
const longestReading = "10 minutes"
/** Longer than a reading: then another replica may try. */
const claimSeconds = 660
const contributors = 5

/** For how many days a batch may run until it is charged. */
const batchDays = 2

/** What was charged for a day, as it is compared with a bill. */
export type ChargedLine = StoredLine

/** A provider that is asked what it billed. */
interface Billed {
  readonly provider: ConfiguredProvider
  readonly billing: ConfiguredBilling
}

/** A comparison, with what is known of its day. */
interface ComparedDay extends Compared {
  readonly day: string
  readonly provider: string
  readonly readAt: DateTime.Utc
  readonly isSettled: boolean
}

/** Sums of comparisons, in nano-dollars. */
interface BillTotals {
  readonly billed: bigint
  readonly charged: bigint
  readonly unexplained: bigint
  readonly findings: number
}

/** What a provider says of the days of a range. */
export interface ProviderTotals extends BillTotals {
  readonly provider: string
  readonly days: number
  readonly settledDays: number
}

const pauseAfter = ({ reason, retryAfterSeconds }: BillFailure): number =>
  reason === "rate-limited" || reason === "unreachable"
    ? Math.min(everySeconds, Math.max(retrySeconds, Math.ceil(retryAfterSeconds ?? 0)))
    : refusedSeconds

const isDayUp = (day: string, readAt: DateTime.Utc): boolean =>
  readAt.epochMilliseconds >= Date.parse(`${day}T00:00:00Z`) + dayMillis + settleSeconds * 1000

const dayAfter = (day: string, days: number): string => dayOf(Date.parse(`${day}T00:00:00Z`) + days * dayMillis)

const daysOf = ({ from, to }: { readonly from: number; readonly to: number }): Days => ({
  first: dayOf(from),
  before: dayOf(Math.ceil(to / dayMillis) * dayMillis)
})

/** Reads what providers say that they billed, and compares it with what was charged. */
export class Reconciliations extends Context.Service<Reconciliations>()("app/insights/Reconciliations", {
  make: Effect.gen(function* () {
    const anomalies = yield* Anomalies
    const audit = yield* Audit
    const bills = yield* ProviderBills
    const configuration = yield* GatewayConfiguration
    const database = yield* Database
    const repository = yield* ReconciliationRepository

    const billed = Effect.map(configuration.get, ({ document: { providers = [] } }): ReadonlyArray<Billed> =>
      providers.flatMap((provider) => (provider.billing === undefined ? [] : [{ provider, billing: provider.billing }]))
    )

    const compared = Effect.fnUntraced(function* (days: Days, provider: string | undefined) {
      const keys = new Map<string, OwnKeys>()
      for (const { billing, provider } of yield* billed) {
        keys.set(provider.id, billing.apiKeyIds === undefined ? undefined : new Set(billing.apiKeyIds))
      }
      const lines = new Map<string, Array<StoredLine>>()
      const batches = new Set<string>()
      const around = { first: dayAfter(days.first, -batchDays), before: dayAfter(days.before, batchDays) }
      for (const line of yield* repository.lines(around, provider)) {
        const name = `${line.provider} ${line.day}`
        if (line.source === "gateway" && line.tier === "batch") {
          for (let away = -batchDays; away <= batchDays; away++) {
            batches.add(`${line.provider} ${dayAfter(line.day, away)}`)
          }
        }
        const known = lines.get(name)
        if (known === undefined) lines.set(name, [line])
        else known.push(line)
      }
      const read = yield* repository.days(days, provider)
      return read.flatMap(({ day, provider, readAt }): ReadonlyArray<ComparedDay> => {
        const isSettled = isDayUp(day, readAt)
        const hasBatches = batches.has(`${provider} ${day}`)
        const options = { ownKeys: keys.get(provider), isSettled, hasBatches }
        return compareDay(lines.get(`${provider} ${day}`) ?? [], options).map((one) =>
          Object.assign(one, { day, provider, readAt, isSettled })
        )
      })
    })

    /** Notes the days of a provider that nothing explains. */
    const findings = Effect.fnUntraced(function* (days: Days, provider: string) {
      const entries: Array<AuditDraft> = []
      const found = (yield* compared(days, provider)).filter(({ isFinding }) => isFinding)
      for (const day of new Set(found.map((one) => one.day))) {
        const models = found.filter((one) => one.day === day)
        const startsAt = Date.parse(`${day}T00:00:00Z`)
        entries.push(
          ...(yield* anomalies.noteBill({
            provider,
            startsAt,
            endsAt: startsAt + dayMillis,
            ...sumsOf(models),
            contributors: models
              .toSorted((one, other) => Number(absolute(other.unexplained) - absolute(one.unexplained)))
              .slice(0, contributors)
              .map(({ model, unexplained }) => ({ dimension: "model", key: model, costUsd: usdOf(unexplained) }))
          }))
        )
      }
      return entries
    })

    /** Stores what was read, unless another reading has begun meanwhile. */
    const store = Effect.fnUntraced(
      function* (
        provider: string,
        attempt: bigint,
        days: Days | undefined,
        lines: Effect.Success<ReturnType<typeof bills.read>>
      ) {
        const isLast = yield* repository.succeed(provider, attempt, everySeconds)
        if (!isLast || days === undefined) return { value: undefined, entries: [] }
        yield* repository.replace(provider, days, lines)
        return { value: undefined, entries: yield* findings(days, provider) }
      },
      audit.change,
      asSystem
    )

    /** The days that are to be read: all of the window, or those from the first on that may still change. */
    const dueDays = Effect.fnUntraced(function* (provider: string, always: boolean) {
      const today = Math.floor((yield* DateTime.now).epochMilliseconds / dayMillis) * dayMillis
      const opens = today - windowDays * dayMillis
      if (always) return { opens, closes: today }
      const settled = new Set(
        yield* database.read("all", repository.settledUntil(provider, dayOf(opens), settleSeconds))
      )
      for (let at = opens; at < today; at += dayMillis) if (!settled.has(dayOf(at))) return { opens: at, closes: today }
      return undefined
    })

    /** Reads the bill of a provider, if no other reader has claimed it, and it is due or `always`. */
    const readOne = Effect.fn("Reconciliations.read")(function* ({ billing, provider }: Billed, always: boolean) {
      const { id } = provider
      const attempt = yield* database.transaction("all", repository.claim(id, claimSeconds, always))
      if (attempt === undefined) return
      const due = yield* dueDays(id, always)
      const reading =
        due === undefined
          ? store(id, attempt, undefined, [])
          : bills.read(provider, billing, due.opens, due.closes).pipe(
              Effect.timeoutOrElse({
                duration: longestReading,
                orElse: () =>
                  Effect.fail(
                    new BillFailure({ reason: "unreachable", detail: "The provider's reports took too long." })
                  )
              }),
              Effect.flatMap((lines) =>
                store(id, attempt, { first: dayOf(due.opens), before: dayOf(due.closes) }, lines)
              )
            )
      yield* reading.pipe(
        Effect.catchTag("BillFailure", (failure) =>
          Effect.andThen(
            Effect.logWarning(`The bill of the provider ${id} cannot be read: ${failure.detail}`),
            database.transaction("all", repository.fail(id, attempt, failure, pauseAfter(failure)))
          )
        ),
        // A caller that leaves, a replica that stops, or a defect.
        Effect.onError(() => database.transaction("all", repository.release(id, attempt)))
      )
    })

    const readAll = Effect.fnUntraced(function* (of: ReadonlyArray<Billed>, always: boolean) {
      if (of.length === 0) return
      yield* database.transaction("all", repository.know(of.map(({ provider }) => provider.id)))
      yield* Effect.forEach(of, (one) => readOne(one, always), { discard: true })
    })

    yield* repeatJob(
      "read the bills of providers",
      "1 minute",
      Effect.flatMap(billed, (of) => readAll(of, false))
    )

    const statesOf = (of: ReadonlyArray<Billed>) =>
      Effect.map(database.read("all", repository.readings), (readings) => {
        const known = new Map(readings.map((reading) => [reading.provider, reading]))
        return of.map(({ provider: { id } }) => stateOf(id, known.get(id)))
      })

    return {
      list: Effect.fn("Reconciliations.list")(function* (
        { from, provider, to }: Partial<UsageRange> & { readonly provider?: string },
        after: ReconciliationPosition | undefined,
        limit: number
      ) {
        const range = yield* requestedRange({ from, to, timeZone: undefined })
        const all = yield* database.read("all", compared(daysOf(range), provider))
        const items = all.toSorted((one, other) => compareKeys(keyOf(one), keyOf(other)))
        const rest = after === undefined ? items : items.filter((one) => compareKeys(keyOf(one), after) > 0)
        const of = yield* billed
        return {
          ...slice(rest.slice(0, limit + 1).map(toReconciliation), limit, (one): ReconciliationPosition => [
            one.day,
            one.provider,
            one.model ?? ""
          ]),
          providers: yield* statesOf(of),
          totals: toTotals(totalsOf(all))
        }
      }),

      refresh: Effect.fn("Reconciliations.refresh")(function* (id: string | undefined) {
        const of = (yield* billed).filter(({ provider }) => id === undefined || provider.id === id)
        if (id !== undefined && of.length === 0) return yield* new NoBilling({})
        yield* readAll(of, true)
        return { providers: yield* statesOf(of) }
      }),

      /** Keeps a bill of a provider for days that are over, as `billOf` makes it of what was charged: for demonstrations. */
      keep: Effect.fn("Reconciliations.keep")(function* (
        provider: string,
        range: { readonly from: number; readonly to: number },
        billOf: (charged: ReadonlyArray<ChargedLine>) => ReadonlyArray<BilledLine>
      ) {
        const days = daysOf(range)
        const change = Effect.gen(function* () {
          yield* repository.replace(provider, days, [])
          yield* repository.replace(provider, days, billOf(yield* repository.lines(days, provider)))
          return { value: undefined, entries: yield* findings(days, provider) }
        })
        yield* change.pipe(audit.change, asSystem)
      }),

      /** What providers say of the days of a range, each provider by itself; none without a bill. */
      totals: Effect.fn("Reconciliations.totals")(function* (range: { readonly from: number; readonly to: number }) {
        const all = yield* database.read("all", compared(daysOf(range), undefined))
        return [...new Set(all.map(({ provider }) => provider))].toSorted().map((provider): ProviderTotals => {
          const own = all.filter((one) => one.provider === provider)
          const settled = new Set(own.filter(({ isSettled }) => isSettled).map(({ day }) => day))
          const days = new Set(own.map(({ day }) => day)).size
          return Object.assign(totalsOf(own), { provider, days, settledDays: settled.size })
        })
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(
    Layer.provide(Layer.mergeAll(ReconciliationRepository.layer, ProviderBills.layer))
  )
}

const absolute = (value: bigint): bigint => (value < 0n ? -value : value)

const sumsOf = (all: ReadonlyArray<Compared>) => {
  let [billed, charged, unexplained] = [0n, 0n, 0n]
  for (const one of all) {
    billed += one.billed
    charged += one.charged
    unexplained += one.unexplained
  }
  return { billed, charged, unexplained }
}

const totalsOf = (all: ReadonlyArray<Compared>): BillTotals => ({
  ...sumsOf(all),
  findings: all.filter(({ isFinding }) => isFinding).length
})

const toTotals = ({ billed, charged, findings, unexplained }: BillTotals) => ({
  billedUsd: netUsd(billed),
  chargedUsd: netUsd(charged),
  differenceUsd: netUsd(billed - charged),
  unexplainedUsd: netUsd(unexplained),
  findings
})

const keyOf = ({ day, model, provider }: ComparedDay): ReconciliationPosition => [day, provider, model]

const compareTexts = (one: string, other: string): number => (one === other ? 0 : one < other ? -1 : 1)
/** Days downwards, then providers and models. */
const compareKeys = (one: ReconciliationPosition, other: ReconciliationPosition): number =>
  compareTexts(other[0], one[0]) || compareTexts(one[1], other[1]) || compareTexts(one[2], other[2])

const countOf = (count: bigint): number => Math.min(Number(count), Number.MAX_SAFE_INTEGER)
const counted = ({ billed, charged }: Counted) => ({ billed: countOf(billed), charged: countOf(charged) })
const named = (name: string): string | null => (name === "" ? null : name)

const toReconciliation = (one: ComparedDay): Reconciliation => ({
  day: one.day,
  provider: one.provider,
  model: named(one.model),
  billedModels: one.billedModels,
  billedUsd: netUsd(one.billed),
  chargedUsd: netUsd(one.charged),
  differenceUsd: netUsd(one.billed - one.charged),
  unexplainedUsd: netUsd(one.unexplained),
  isFinding: one.isFinding,
  isSettled: one.isSettled,
  readAt: one.readAt,
  requests: counted(one.requests),
  inputTokens: counted(one.inputTokens),
  outputTokens: counted(one.outputTokens),
  keys: one.keys.map(({ billed, isOwn, keyId, projectId, requests }) => ({
    keyId: named(keyId),
    projectId: named(projectId),
    isOwn,
    billedUsd: netUsd(billed),
    requests: countOf(requests)
  })),
  explanations: one.explanations.map(({ amount, detail, kind }) => ({ kind, amountUsd: netUsd(amount), detail }))
})

const stateOf = (provider: string, reading: Reading | undefined): BillState => ({
  provider,
  state: reading?.failure != null ? "failed" : reading?.readAt != null ? "read" : "unread",
  readAt: reading?.readAt ?? null,
  failedAt: reading?.failedAt ?? null,
  reason: reading?.failure ?? null,
  detail: reading?.failureDetail ?? null
})
