import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { AttestationKeys } from "../attestation/service.ts"
import { repeatJob } from "../platform/background-jobs.ts"
import { Database } from "../platform/database.ts"
import { Settings } from "../platform/settings.ts"
import { retirementActions, RetirementStatement, retirementType } from "./domain.ts"
import { RetentionRepository } from "./retention-repository.ts"
import { asSystem, Audit } from "./service.ts"

const statement = Schema.encodeSync(RetirementStatement)

/** Takes months out of the log that are older than it is kept, whole and signed for; never a single entry. */
export class AuditRetention extends Context.Service<
  AuditRetention,
  {
    /** Drops what is older than `Audit:RetentionDays`; answers the months. */
    readonly retire: Effect.Effect<ReadonlyArray<string>>
  }
>()("app/audit/AuditRetention") {
  static readonly layerNoDeps = Layer.effect(
    AuditRetention,
    Effect.gen(function* () {
      const audit = yield* Audit
      const database = yield* Database
      const keys = yield* AttestationKeys
      const repository = yield* RetentionRepository
      const { retentionDays } = (yield* Settings).audit

      const retireMonth = Effect.fn("AuditRetention.retireMonth")(function* (month: string) {
        const runs = yield* database.transaction("all", repository.runsOf(month))
        const last = runs.at(-1)
        const { keyId, sign } = yield* keys.signer("sign-statements")
        const retiredAt = yield* DateTime.now
        const jws = yield* sign(retirementType, statement({ month, runs, retiredAt }))
        yield* Effect.gen(function* () {
          if (last !== undefined) yield* repository.insert({ month, lastSequence: last.last, retiredAt, keyId, jws })
          yield* repository.drop(month)
          const after = { month, lastSequence: last?.last ?? null, keyId, jws }
          return {
            value: undefined,
            entries: [{ action: retirementActions.AuditMonthRetired, entityId: month, after }]
          }
        }).pipe(audit.change, asSystem)
      })

      const retire = Effect.gen(function* () {
        if (retentionDays === 0) return []
        const oldest = DateTime.subtract(yield* DateTime.now, { days: retentionDays })
        const months = yield* database.transaction("all", repository.monthsBefore(oldest))
        const retired: Array<string> = []
        for (const month of months) {
          const done = yield* retireMonth(month).pipe(
            Effect.as(true),
            Effect.catchCause((cause) =>
              Effect.as(
                Effect.logWarning(`The audit entries of ${month} stay: they could not be retired`, cause),
                false
              )
            )
          )
          // Later months stay as well, so that what is left has no hole but at its beginning.
          if (!done) break
          retired.push(month)
        }
        return retired
      }).pipe(Effect.withSpan("AuditRetention.retire"))

      yield* repeatJob("retire old months of the audit log", "1 hour", retire)

      return AuditRetention.of({ retire })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(RetentionRepository.layer))
}
