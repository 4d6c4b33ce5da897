import { Context, DateTime, Effect, Layer } from "effect"
import { type AuditDraft } from "../../../audit/log/domain.ts"
import { asSystem, Audit } from "../../../audit/log/service.ts"
import { repeatJob } from "../../../platform/runtime/background-jobs.ts"
import { type ApplicationId } from "../../applications/domain.ts"
import { ApplicationConfiguration } from "../../applications/service.ts"
import { configurationActions } from "../model/domain.ts"
import { type PurgedNode, SoftDeleteRepository } from "./repository.ts"

const kept = { days: 30 } as const
const groupsAtOnce = 50

/** What was deleted: it can be restored for 30 days, and is then removed for good. */
export class ConfigurationSoftDelete extends Context.Service<ConfigurationSoftDelete>()(
  "app/applications/ConfigurationSoftDelete",
  {
    make: Effect.gen(function* () {
      const audit = yield* Audit
      const repository = yield* SoftDeleteRepository

      const purgeSome = Effect.gen(function* () {
        const before = DateTime.subtract(yield* DateTime.now, kept)
        const nodes = yield* repository.purge(DateTime.toDateUtc(before), groupsAtOnce)
        return { value: nodes.length, entries: nodes.map(purged) }
      }).pipe(audit.change, asSystem)

      const purge = Effect.gen(function* () {
        let total = 0
        let count = 0
        do {
          count = yield* purgeSome
          total += count
        } while (count > 0)
        return total
      }).pipe(Effect.withSpan("ConfigurationSoftDelete.purge"))

      yield* repeatJob("remove deleted configuration", "1 hour", purge)

      return {
        /** Removes what an application that is about to be deleted has in the softDelete, and answers the entries that record it. */
        emptyOf: Effect.fn("ConfigurationSoftDelete.emptyOf")((applicationId: ApplicationId) =>
          Effect.map(repository.emptyOf(applicationId), (nodes) => nodes.map(purged))
        ),
        /** Removes what was deleted more than 30 days ago; answers how many nodes. */
        purge
      }
    })
  }
) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = Layer.effect(
    ApplicationConfiguration,
    Effect.map(ConfigurationSoftDelete, ({ emptyOf }) => ApplicationConfiguration.of({ emptyOf }))
  ).pipe(Layer.provideMerge(this.layerNoDeps), Layer.provide(SoftDeleteRepository.layer))
}

const purged = ({ applicationId, deletedAt, id, name, parentId, type, version }: PurgedNode): AuditDraft => ({
  action: configurationActions.ConfigurationPurged,
  entityId: id,
  applicationId,
  before: { name, type, parentId, version, deletedAt: DateTime.formatIso(deletedAt) }
})
