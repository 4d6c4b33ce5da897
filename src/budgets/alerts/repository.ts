import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { AlertThreshold, CapId, CapScope } from "../ledger/domain.ts"
import { Unit } from "../ledger/quantity-domain.ts"
import { AlertId } from "./domain.ts"

/** An alert as it is stored, with the cap and the counter that it is of. */
export const StoredAlert = Schema.Struct({
  id: AlertId,
  tenantId: TenantId,
  capId: CapId,
  name: Schema.String,
  scope: CapScope,
  counterKey: Schema.String,
  unit: Unit,
  ...AlertThreshold.fields,
  limitAmount: Schema.BigInt,
  spent: Schema.BigInt,
  reserved: Schema.BigInt,
  periodStart: Schema.NullOr(InstantFromDate),
  periodEnd: Schema.NullOr(InstantFromDate),
  occurredAt: InstantFromDate
})
export type StoredAlert = typeof StoredAlert.Type

export interface AlertFilter {
  readonly tenantId?: TenantId | undefined
  readonly capId?: CapId | undefined
}

/** Reads the alerts that the functions of the ledger write. */
export class AlertsRepository extends Context.Service<AlertsRepository>()("app/budgets/AlertsRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const selectPage = SqlSchema.findAll({
      Request: Schema.Struct({
        tenantId: Schema.UndefinedOr(TenantId),
        capId: Schema.UndefinedOr(CapId),
        after: Schema.UndefinedOr(AlertId),
        limit: Schema.Int
      }),
      Result: StoredAlert,
      execute: ({ after, capId, limit, tenantId }) => sql`
          SELECT a.id, a.tenant_id, a.cap_id, c.name, c.scope, b.counter_key, c.unit, a.measure, a.percent, a.limit_amount,
            a.spent, a.reserved, CASE WHEN isfinite(b.period_start) THEN b.period_start END AS period_start,
            CASE WHEN isfinite(b.period_end) THEN b.period_end END AS period_end, a.occurred_at
          FROM budget_alerts a
          JOIN budget_counters b ON b.tenant_id = a.tenant_id AND b.id = a.counter_id
          JOIN budget_caps c ON c.tenant_id = a.tenant_id AND c.id = a.cap_id
          WHERE ${sql.and([
            sql`true`,
            ...(tenantId === undefined ? [] : [sql`a.tenant_id = ${tenantId}`]),
            ...(capId === undefined ? [] : [sql`a.cap_id = ${capId}`]),
            ...(after === undefined ? [] : [sql`a.id < ${after}`])
          ])}
          ORDER BY a.id DESC LIMIT ${limit}`
    })

    return {
      /** The newest first. */
      list: Effect.fn("AlertsRepository.list")(
        ({ capId, tenantId }: AlertFilter, after: AlertId | undefined, limit: number) =>
          Effect.orDie(selectPage({ tenantId, capId, after, limit }))
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
