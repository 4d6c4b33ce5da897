import { Clock, Context, DateTime, Effect, Layer } from "effect"
import { type Capability } from "../kernel/authority/capability.ts"
import { type Principal } from "../kernel/authority/principal.ts"
import { Database } from "../platform/database/database.ts"
import { makeLastUses } from "../platform/database/last-use.ts"
import { repeatJob } from "../platform/runtime/background-jobs.ts"
import { CapabilityUsesRepository } from "./capability-uses-repository.ts"

/** For so many days a use counts: what was not used since is more than its holder needs. */
export const usesCountForDays = 90

/** Which capabilities of their scopes keys and agents use. */
export class CapabilityUses extends Context.Service<CapabilityUses>()("app/access/CapabilityUses", {
  make: Effect.gen(function* () {
    const clock = yield* Clock.Clock
    const database = yield* Database
    const repository = yield* CapabilityUsesRepository
    const uses = yield* makeLastUses("capabilities", (found) =>
      repository.used(
        found.map(({ at, id }) => {
          const [principal = "", capability = "", tenantId = ""] = id.split(" ")
          return { principal, capability, tenantId: tenantId === "" ? null : tenantId, at }
        })
      )
    )
    yield* repeatJob(
      "forget old uses of capabilities",
      "1 day",
      Effect.flatMap(DateTime.now, (now) =>
        database.transaction(
          "all",
          repository.forget(DateTime.toDateUtc(DateTime.subtract(now, { days: usesCountForDays })))
        )
      )
    )
    return {
      record: ({ kind, name, tenantId }: Principal, capability: Capability): void => {
        if (kind !== "api-key" && kind !== "agent" && kind !== "synthetic") return
        uses.recordAt(`${name} ${capability} ${tenantId ?? ""}`, clock.currentTimeMillisUnsafe())
      }
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(CapabilityUsesRepository.layer))
}
