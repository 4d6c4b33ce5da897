import { Clock, Effect, Schedule } from "effect"
import { networkOf } from "../../platform/http/request.ts"
import { type AuditRow } from "./repository.ts"

const windowMillis = 60_000
const most = 10_000

/**
 * Counts like refusals (same tenant, reason, caller, target), so that a stranger cannot fill the log: the first is written
 * at once, those of the minute after it become one entry with their `count` when the minute is over.
 */
export const makeRefusals = Effect.fnUntraced(function* (
  write: (rows: ReadonlyArray<AuditRow>) => Effect.Effect<void>
) {
  const clock = yield* Clock.Clock
  const open = new Map<string, { readonly until: number; readonly row: AuditRow; repeats: number }>()

  const flush = (now: number) =>
    Effect.suspend(() => {
      const rows: Array<AuditRow> = []
      for (const [key, entry] of open) {
        if (entry.until > now) continue
        open.delete(key)
        if (entry.repeats > 0) rows.push({ ...entry.row, count: entry.repeats })
      }
      return rows.length === 0 ? Effect.void : write(rows)
    }).pipe(Effect.catchCause((cause) => Effect.logWarning("Could not record refusals", cause)))

  yield* Effect.suspend(() => flush(clock.currentTimeMillisUnsafe())).pipe(
    Effect.repeat(Schedule.spaced("5 seconds")),
    Effect.forkScoped
  )
  yield* Effect.addFinalizer(() => flush(Number.POSITIVE_INFINITY))

  const add = (row: AuditRow, countedBy = "", alike = row.reason): Effect.Effect<void> =>
    Effect.suspend(() => {
      const { action_type, entity_id, entity_type, ip_address, tenant_id, user_id } = row
      const key = [tenant_id, action_type, entity_type, entity_id, user_id, ip_address, alike, countedBy].join("\n")
      const entry = open.get(key)
      if (entry !== undefined) {
        entry.repeats++
        return Effect.void
      }
      // Too many different targets are counted by network, so that a flood from one network hides no other refusals; too
      // many different networks are counted together. Refusals of two tenants never are.
      const network = ip_address === null || open.size >= 2 * most ? null : networkOf(ip_address)
      const crowded = open.size >= most
      const kept = crowded ? { ...row, entity_id: null, ip_address: network, user_agent: null } : row
      const keptKey = crowded ? [tenant_id, action_type, "*", network].join("\n") : key
      const known = open.get(keptKey)
      if (known !== undefined) {
        known.repeats++
        return Effect.void
      }
      open.set(keptKey, { until: clock.currentTimeMillisUnsafe() + windowMillis, row: kept, repeats: 0 })
      return write([kept])
    }).pipe(Effect.catchCause((cause) => Effect.logWarning("Could not record a refusal", cause)))

  return { add }
})
