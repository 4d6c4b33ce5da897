import { Context, DateTime, Effect, Exit, Layer, Schedule, Schema } from "effect"
import { Database } from "../../platform/database/database.ts"
import { problemOf } from "../../platform/http/failures.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { retirementActions, RetirementStatement, retirementType } from "../log/domain.ts"
import { asSystem, Audit } from "../log/service.ts"
import { AttestationKeys } from "../signing-keys/service.ts"
import { RetentionRepository } from "./retention-repository.ts"

const statement = Schema.encodeSync(RetirementStatement)

/** Drops the months that are older than the retention period, each as a whole and with a signed retirement. */
export class AuditRetention extends Context.Service<AuditRetention>()("app/audit/AuditRetention", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const keys = yield* AttestationKeys
    const repository = yield* RetentionRepository
    const { retentionDays } = (yield* Settings).audit

    const retireMonth = Effect.fn("AuditRetention.retireMonth")(function* (month: string) {
      const { keyId, sign } = yield* keys.signer("sign-statements")
      return yield* Effect.gen(function* () {
        if (!(yield* repository.claim(month))) return { value: false, entries: [] }
        const runs = yield* database.transaction("all", repository.runsOf(month))
        const last = runs.at(-1)
        const retiredAt = yield* DateTime.now
        const jws = yield* sign(retirementType, statement({ month, runs, retiredAt }))
        if (last !== undefined) yield* repository.insert({ month, lastSequence: last.last, retiredAt, keyId, jws })
        yield* repository.drop(month)
        const after = { month, lastSequence: last?.last ?? null, keyId, jws }
        return {
          value: true,
          entries: [{ action: retirementActions.AuditMonthRetired, entityId: month, after }]
        }
      }).pipe(audit.change, asSystem)
    })

    /** Stops at the first month that cannot be dropped, so that the log has gaps at its beginning only. */
    const pass = Effect.gen(function* () {
      if (retentionDays === 0) return { retired: [], end: Exit.void }
      const now = yield* DateTime.now
      const months = yield* database.transaction("all", repository.monthsOver(retentionDays, now))
      const retired: Array<string> = []
      for (const month of months) {
        const done = yield* retireMonth(month).pipe(
          Effect.sandbox,
          // A drop gives up at once where others read: it is tried again before the next pass.
          Effect.retry({
            schedule: Schedule.spaced("1 second"),
            times: 5,
            while: (cause) => problemOf(cause) !== undefined
          }),
          Effect.catch(Effect.failCause),
          Effect.exit
        )
        if (Exit.isFailure(done)) return { retired, end: done }
        if (done.value) retired.push(month)
      }
      return { retired, end: Exit.void }
    }).pipe(Effect.withSpan("AuditRetention.retire"))

    yield* repeatJob(
      "retire old months of the audit log",
      "1 hour",
      Effect.flatMap(pass, ({ end }) => end)
    )

    return {
      /** Drops what is older than `Audit:RetentionDays`; answers the months. */
      retire: Effect.map(pass, ({ retired }) => retired)
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(RetentionRepository.layer))
}
