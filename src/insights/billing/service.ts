import { Context, DateTime, Effect, Layer, Queue, Stream } from "effect"
import { SecureRandom } from "effect/crypto"
import * as crypto from "node:crypto"
import { Audit } from "../../audit/log/service.ts"
import { Statements } from "../../audit/statements/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { csvCell } from "../../kernel/csv.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { makeTurns } from "../../platform/runtime/turns.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type ProviderTotals, Reconciliations } from "../reconciliation/service.ts"
import { dayMillis, rangeOf } from "../usage/domain.ts"
import { UsageRepository } from "../usage/repository.ts"
import { droppedRows, visibleUsage } from "../usage/service.ts"
import { type BilledRow, type Column, type ColumnFormat, columnsOf, decimalText } from "./columns-domain.ts"
import { billingActions, billingPredicateType, type BillingRequest, type FocusVersion, StatementId } from "./domain.ts"
import { BillingRepository, type Grain } from "./repository.ts"

const newestVersion: FocusVersion = "1.4"
const usdDecimals = 9

export interface BillingReport {
  readonly fileName: string
  readonly contentType: string
  /** Where the statement is once the report was read to its end. */
  readonly statementPath: string | undefined
  readonly content: Stream.Stream<Uint8Array>
}

/** Writes a report part by part, in one format. */
interface Writer {
  readonly head: string
  rows(rows: ReadonlyArray<BilledRow>): string
  end(): string
}

const csvWriter = (columns: ReadonlyArray<Column>, issuer: string): Writer => ({
  head: `${columns.map(({ id }) => id).join(",")}\r\n`,
  rows: (rows) =>
    rows
      .map((row) => {
        const cells = columns.map((column) => {
          const value = column.value(row, issuer)
          return column.isNumber ? (value ?? "") : csvCell(value)
        })
        return `${cells.join(",")}\r\n`
      })
      .join(""),
  end: () => ""
})

/** What providers say they billed, as JSON with all digits. */
const providersText = (bills: ReadonlyArray<ProviderTotals>): string =>
  bills
    .map(({ billed, charged, days, provider, settledDays, unexplained }) => {
      const [billedUsd, chargedUsd, difference, rest] = [billed, charged, billed - charged, unexplained].map((amount) =>
        decimalText(amount, usdDecimals)
      )
      return `{"provider":${JSON.stringify(provider)},"days":${days},"settledDays":${settledDays},"billedUsd":${billedUsd},"chargedUsd":${chargedUsd},"differenceUsd":${difference},"unexplainedUsd":${rest}}`
    })
    .join(",")

const jsonWriter = (columns: ReadonlyArray<Column>, issuer: string, bills: ReadonlyArray<ProviderTotals>): Writer => {
  let total = 0n
  let separator = ""
  const line = (row: BilledRow): string =>
    columns
      .flatMap((column) => {
        const value = column.value(row, issuer)
        if (value === undefined) return []
        return [`"${column.id}":${value === null || column.isNumber ? value : JSON.stringify(value)}`]
      })
      .join(",")
  return {
    head: '{"lines":[',
    rows: (rows) => {
      let text = ""
      for (const row of rows) {
        total += row.cost
        text += `${separator}{${line(row)}}`
        separator = ",\n"
      }
      return text
    },
    end: () =>
      `],"totals":{"costUsd":${decimalText(total, usdDecimals)}}${bills.length === 0 ? "" : `,"providers":[${providersText(bills)}]`}`
  }
}

/** What has to be known of the columns of CSV before its first row: those that the rows of a grain have. */
const columnsOfLines = (grain: Grain): ReadonlyArray<Column> => {
  const members: Readonly<Record<string, string>> = {
    agent: "agentId",
    "task-type": "taskType",
    application: "applicationId",
    plan: "planId",
    user: "userId",
    "api-key": "apiKeyId",
    tenant: "tenantId"
  }
  const all = columnsOf("lines")
  if (typeof grain === "string") return all.filter(({ id }) => !["day", "hour", "requests"].includes(id))
  const own = ["requests", "inputTokens", "outputTokens", "cachedInputTokens", "costUsd"]
  const names = grain.map((dimension) => members[dimension] ?? dimension)
  // What has an id may have a name.
  const ids = new Set([...names, ...own, ...names.map((name) => name.replace(/Id$/, "Name"))])
  return all.filter(({ id }) => ids.has(id))
}

const only = (member: string, formats: string) => ({
  path: ["payload", member],
  message: `Expected only with the format ${formats}`
})

/** What does not fit together in a request. */
const faultsOf = ({ columns, focusVersion, format, groupBy }: BillingRequest) => {
  const version = focusVersion ?? newestVersion
  const known = new Set(columnsOf(version).map(({ id }) => id))
  const unknown = (columns ?? []).filter((id) => !known.has(id))
  return [
    ...(format !== "focus" && focusVersion !== undefined ? [only("focusVersion", "focus")] : []),
    ...(format !== "focus" && columns !== undefined ? [only("columns", "focus")] : []),
    ...(format === "focus" && groupBy !== undefined ? [only("groupBy", "json or csv")] : []),
    ...(format === "focus" && unknown.length > 0
      ? [
          {
            path: ["payload", "columns"],
            message: `Expected columns of FOCUS ${version}; it has no ${unknown.join(", ")}`
          }
        ]
      : [])
  ]
}

/** Bills: what was charged in a range, line by line, equal to the ledger. */
export class Billing extends Context.Service<Billing>()("app/insights/Billing", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const newId = (yield* SecureRandom.SecureRandom).uuidV7()
    const reconciliations = yield* Reconciliations
    const repository = yield* BillingRepository
    const statements = yield* Statements
    const usage = yield* UsageRepository
    const { invoiceIssuer } = (yield* Settings).insights
    // A read waits for its reader, and holds a connection meanwhile.
    const inTurn = yield* makeTurns({ atOnce: 2, ofOne: 1 })

    const report = Effect.fn("Billing.report")(function* (request: BillingRequest) {
      const principal = yield* CurrentPrincipal
      const {
        columns: chosen,
        focusVersion,
        format,
        from,
        groupBy,
        includeSynthetic = false,
        sign,
        tenantId,
        to
      } = request
      const filter = yield* visibleUsage(principal, {
        includeSynthetic,
        ...(tenantId === undefined ? {} : { tenantId })
      })
      const range = rangeOf({ from, to, timeZone: undefined }, to)
      const faults = [
        ...faultsOf(request),
        ...("message" in range ? [{ ...range, path: ["payload", range.path.at(-1) ?? "to"] }] : [])
      ]
      if (faults.length > 0 || "message" in range) return yield* new ValidationFailed({ errors: faults })

      const keptFrom = yield* database.read(scopeOf(principal), usage.keptFrom(filter, range))
      if (keptFrom !== undefined) return yield* droppedRows("payload", keptFrom)

      const grain: Grain = format === "focus" ? "price" : (groupBy ?? "charge")
      const columnFormat: ColumnFormat = format === "focus" ? (focusVersion ?? newestVersion) : "lines"
      const columns =
        format === "focus"
          ? columnsOf(columnFormat).filter(({ id }) => chosen === undefined || chosen.includes(id))
          : columnsOfLines(grain)
      // The days that are wholly in the report, of the installation as a whole.
      const whole = {
        from: Math.ceil(range.from / dayMillis) * dayMillis,
        to: Math.floor(range.to / dayMillis) * dayMillis
      }
      const isOfAll = principal.tenantId === undefined && filter.tenantId === undefined && filter.agentId === undefined
      const bills = format === "json" && isOfAll && whole.from < whole.to ? yield* reconciliations.totals(whole) : []
      const write = format === "json" ? jsonWriter(columns, invoiceIssuer, bills) : csvWriter(columns, invoiceIssuer)
      const extension = format === "json" ? "json" : "csv"
      const fileName = `billing-report-${DateTime.formatIsoDateUtc(from)}-${DateTime.formatIsoDateUtc(to)}.${extension}`
      const id = StatementId.make(yield* newId)
      const digest = crypto.createHash("sha256")

      const billed = { filter, from: range.from, to: range.to }
      const close =
        sign === true
          ? Effect.andThen(database.transaction("all", repository.close(id, billed)), repository.awaitBookings())
          : Effect.void
      const reopen = sign === true ? database.transaction("all", repository.reopen(id)) : Effect.void
      const rows = Stream.callback<ReadonlyArray<BilledRow>>(
        (queue) =>
          database
            .transaction(
              scopeOf(principal),
              repository.read(billed, grain, (part) => Queue.offer(queue, part))
            )
            .pipe((read) => inTurn(scopeOf(principal), Effect.andThen(close, read)), Effect.andThen(Queue.end(queue))),
        { bufferSize: 2 }
      )

      const signed = Effect.gen(function* () {
        if (sign !== true) return format === "json" ? "}\n" : ""
        if (format === "json") digest.update("}")
        const signed = yield* statements.make({
          subject: [{ name: fileName, digest: { sha256: digest.digest("hex") } }],
          predicateType: billingPredicateType,
          predicate: {
            from: DateTime.formatIso(from),
            to: DateTime.formatIso(to),
            tenantId: filter.tenantId ?? null,
            includeSynthetic,
            format,
            ...(format === "focus" ? { focusVersion: columnFormat } : {})
          }
        })
        const { envelope } = signed
        yield* audit
          .change(
            Effect.as(
              Effect.andThen(statements.record(signed), repository.keepStatement(id, filter.tenantId, envelope)),
              {
                value: undefined,
                entries: [
                  {
                    action: billingActions.BillingReportSigned,
                    entityId: id,
                    ...(filter.tenantId === undefined ? {} : { tenantId: filter.tenantId }),
                    after: { fileName, format, from: DateTime.formatIso(from), to: DateTime.formatIso(to) }
                  }
                ]
              }
            )
          )
          .pipe(Effect.provideService(CurrentPrincipal, principal))
        return format === "json" ? `,"statement":${JSON.stringify(envelope)}}\n` : ""
      })

      const body = Stream.make(write.head).pipe(
        Stream.concat(Stream.map(rows, write.rows)),
        Stream.concat(Stream.sync(write.end)),
        Stream.tap((text) => Effect.sync(() => void digest.update(text)))
      )
      return {
        fileName,
        contentType: format === "json" ? "application/json" : "text/csv; charset=utf-8",
        statementPath: sign === true ? `/api/insights/billing-statements/${id}` : undefined,
        content: body.pipe(
          Stream.concat(Stream.fromEffect(signed)),
          Stream.filter((text) => text !== ""),
          Stream.tapCause((cause) => Effect.logError("A billing report broke off", cause)),
          Stream.ensuring(Effect.ignoreCause(reopen)),
          Stream.encodeText
        )
      } satisfies BillingReport
    })

    return {
      report,
      /** The statement about a signed report. */
      statement: Effect.fn("Billing.statement")((id: StatementId) => database.asCaller(repository.statement(id)))
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(
    Layer.provide([BillingRepository.layer, UsageRepository.layer])
  )
}
