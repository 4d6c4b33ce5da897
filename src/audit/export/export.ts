import { Context, DateTime, Effect, Layer, Option, Schedule, Schema, Stream } from "effect"
import * as crypto from "node:crypto"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { nilUuid } from "../../kernel/identifier.ts"
import { scopeOf, Database, type TenantScope } from "../../platform/database/database.ts"
import { CurrentReading, ReadReplica } from "../../platform/database/read-replica.ts"
import { makeChainReader } from "../chain/chain-reader.ts"
import { type EntryPlace, type LinkedRow, ProofRepository } from "../chain/proof-repository.ts"
import { type AuditFilter, ExportStatement, exportType } from "../log/domain.ts"
import { Audit } from "../log/service.ts"
import { AttestationKeys } from "../signing-keys/service.ts"
import { ExportRepository } from "./export-repository.ts"
import { csvHeader, csvLine, isWhole, jsonLine, type WholeRow } from "./exported-line.ts"

export const exportActions = auditActions("AuditLog", ["AuditLogExported"])

export type ExportFormat = "jsonl" | "csv"

/** Entries that are read at once; one may have 64 KiB. */
const atOnce = 200
const statement = Schema.encodeSync(ExportStatement)
const start: EntryPlace = { occurredAt: "-infinity", id: nilUuid }

/** A log being exported: its lines as bytes, read while they are sent. */
export interface Exported {
  readonly fileName: string
  readonly contentType: string
  readonly content: Stream.Stream<Uint8Array>
}

/** Exports the log line by line in constant memory, and audits the export. */
export class AuditExport extends Context.Service<AuditExport>()("app/audit/AuditExport", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const keys = yield* AttestationKeys
    const database = yield* Database
    const replica = yield* ReadReplica
    const proof = yield* ProofRepository
    const readChain = yield* makeChainReader
    const repository = yield* ExportRepository

    const filtered = (scope: TenantScope, filter: AuditFilter, upTo: number): Stream.Stream<ReadonlyArray<LinkedRow>> =>
      Stream.paginate(start, (behind) =>
        Effect.map(database.read(scope, repository.page(filter, behind, upTo, atOnce)), ({ last, rows }) => [
          [rows],
          Option.fromNullishOr(last)
        ])
      )

    /** Records the export and waits until that entry, and with it all before it, has its link. */
    const record = Effect.fnUntraced(function* (filter: AuditFilter, format: ExportFormat) {
      const transaction = yield* audit.change(
        Effect.map(repository.transaction, (value) => ({
          value,
          entries: [
            { action: exportActions.AuditLogExported, entityId: format, after: { format, filter: shown(filter) } }
          ]
        }))
      )
      yield* repository
        .isLinked(transaction)
        .pipe(
          Effect.repeat({ until: (linked) => linked, schedule: Schedule.spaced("20 millis") }),
          Effect.timeoutOption("5 seconds")
        )
    })

    /** Writes lines, and a signature over all of them at the end; without its key the lines come without. */
    const writeJsonLines = Effect.fnUntraced(function* (head: ExportStatement["head"]) {
      const exportedAt = yield* DateTime.now
      const digest = crypto.createHash("sha256")
      let lines = 0
      const sign = keys.signer("sign-statements").pipe(
        Effect.flatMap(({ sign }) =>
          sign(exportType, statement({ lines, digest: digest.digest("hex"), head, exportedAt }))
        ),
        Effect.map((jws) => `{"seal":"${jws}"}\n`),
        Effect.catchCause((cause) =>
          Effect.as(Effect.logError("An export of the audit log is not sealed: there is no key", cause), "")
        )
      )
      return {
        lines: (rows: ReadonlyArray<WholeRow>) => {
          lines += rows.length
          for (const row of rows) digest.update(row.hash)
          return rows.map(jsonLine).join("")
        },
        end: sign
      }
    })

    const run = Effect.fn("AuditExport.run")(function* (filter: AuditFilter, format: ExportFormat) {
      const principal = yield* CurrentPrincipal
      yield* record(filter, format)
      const { hash, sequence } = yield* proof.head
      const reading = yield* replica.begin("audit-export")
      const scope = scopeOf(principal)
      const isAll = scope === "all" && Object.keys(filter).length === 0
      const write = format === "csv" ? writeCsv() : yield* writeJsonLines({ sequence, hash })
      const rows = isAll ? readChain(0, sequence, atOnce) : filtered(scope, filter, sequence)
      const text = rows.pipe(
        Stream.provideService(CurrentReading, reading),
        Stream.tapCause((cause) => Effect.logError("An export of the audit log broke off", cause)),
        // The next rows are read while these are written and on their way.
        Stream.buffer({ capacity: 1 }),
        Stream.map((batch) => write.lines(batch.filter(isWhole))),
        Stream.concat(Stream.fromEffect(write.end)),
        Stream.filter((batch) => batch !== "")
      )
      const day = DateTime.formatIsoDateUtc(yield* DateTime.now)
      return {
        fileName: `audit-log-${day}.${format}`,
        contentType: format === "csv" ? "text/csv; charset=utf-8" : "application/x-ndjson",
        content: Stream.encodeText(text)
      }
    })

    return {
      /**
       * The entries that the caller may see and the filter lets through. Without a filter they come in the order of the chain,
       * so that the file shows its completeness; with one, in the order of their time.
       */
      run
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.merge(ProofRepository.layer, ExportRepository.layer))
  )
}

const writeCsv = () => {
  let header = csvHeader
  const lines = (rows: ReadonlyArray<WholeRow>): string => {
    const text = `${header}${rows.map(csvLine).join("")}`
    header = ""
    return text
  }
  return { lines, end: Effect.sync(() => lines([])) }
}

const shown = ({ endDate, startDate, ...rest }: AuditFilter) => ({
  ...rest,
  ...(startDate === undefined ? {} : { startDate: DateTime.formatIso(startDate) }),
  ...(endDate === undefined ? {} : { endDate: DateTime.formatIso(endDate) })
})
