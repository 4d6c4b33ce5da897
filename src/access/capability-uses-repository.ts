import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { type Capability } from "../kernel/authority/capability.ts"

/** A capability that a principal used, and when, in epoch milliseconds. */
export interface CapabilityUse {
  readonly principal: string
  readonly capability: Capability
  readonly tenantId: string | null
  readonly at: number
}

export class CapabilityUsesRepository extends Context.Service<CapabilityUsesRepository>()(
  "app/access/CapabilityUsesRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return {
        /** Moves the last uses forward at once; use is no audit entry. */
        used: Effect.fn("CapabilityUsesRepository.used")((uses: ReadonlyArray<CapabilityUse>) =>
          Effect.asVoid(
            Effect.orDie(sql`
              INSERT INTO capability_uses AS c (principal, capability, tenant_id, last_used_at)
              SELECT u.principal, u.capability, u."tenantId", to_timestamp(u.at / 1000)
              FROM json_to_recordset(${JSON.stringify(uses)}::json)
                AS u(principal text, capability text, "tenantId" uuid, at double precision)
              ORDER BY u.principal, u.capability
              ON CONFLICT (principal, capability)
                DO UPDATE SET last_used_at = greatest(c.last_used_at, EXCLUDED.last_used_at)`)
          )
        ),
        /** Deletes what was last used before a moment. */
        forget: Effect.fn("CapabilityUsesRepository.forget")((before: Date) =>
          Effect.asVoid(Effect.orDie(sql`DELETE FROM capability_uses WHERE last_used_at < ${before}`))
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
