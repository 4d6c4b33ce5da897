import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { AgentId } from "../../identity/agents/domain.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import {
  CapId,
  ChargeId,
  Origin,
  PlanId,
  ReservationId,
  ReservationState,
  StoredReservation
} from "../ledger/domain.ts"

const Filter = Schema.Struct({
  tenantId: Schema.optionalKey(TenantId),
  state: Schema.optionalKey(ReservationState),
  origin: Schema.optionalKey(Origin),
  agentId: Schema.optionalKey(AgentId),
  planId: Schema.optionalKey(PlanId),
  capId: Schema.optionalKey(CapId)
})
export type ReservationFilter = typeof Filter.Type

const Row = Schema.Struct({ reservation: StoredReservation })
const PeriodEnd = Schema.Struct({ id: ReservationId, capId: CapId, ends: Schema.NullOr(InstantFromDate) })
export type PeriodEnd = typeof PeriodEnd.Type

// As the ledger's own statements write it, but with the names that the schema has.
const columns = `
  json_build_object('tenantId', r.tenant_id, 'id', r.id, 'state', r.state, 'origin', r.origin, 'agentId', r.agent_id,
    'planId', r.plan_id, 'applicationId', r.application_id, 'apiKeyId', r.api_key_id, 'userId', r.user_id,
    'model', r.model, 'provider', r.provider, 'taskType', r.task_type, 'amount', r.amount, 'tokens', r.tokens,
    'ttlSeconds', r.ttl_seconds, 'expiresAt', r.expires_at, 'createdAt', r.created_at, 'createdBy', r.created_by,
    'metadata', r.metadata, 'counterIds', r.counter_ids, 'answer', NULL, 'decidedAt', r.decided_at,
    'decidedBy', r.decided_by, 'decisionReason', r.decision_reason, 'closedAt', r.closed_at, 'chargeId', r.charge_id,
    'actual', r.actual, 'actualTokens', r.actual_tokens, 'late', r.late) AS reservation`

/** Reads reservations; only the ledger changes them. */
export class ReservationsRepository extends Context.Service<ReservationsRepository>()(
  "app/budgets/ReservationsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const all = sql.literal(columns)
      const selectOne = SqlSchema.findOneOption({
        Request: ReservationId,
        Result: Row,
        execute: (id) => sql`SELECT ${all} FROM budget_reservations r WHERE id = ${id}`
      })
      const selectCharged = SqlSchema.findOneOption({
        Request: ChargeId,
        Result: Row,
        execute: (chargeId) => sql`
          SELECT ${all} FROM budget_entries e
          JOIN budget_reservations r ON r.tenant_id = e.tenant_id AND r.id = e.reservation_id
          WHERE e.id = ${chargeId} AND e.kind = 'charge'`
      })
      const selectPage = SqlSchema.findAll({
        Request: Schema.Struct({ filter: Filter, after: Schema.UndefinedOr(ReservationId), limit: Schema.Int }),
        Result: Row,
        execute: ({ after, filter, limit }) => sql`
          SELECT ${all} FROM budget_reservations r
          WHERE ${sql.and([
            sql`true`,
            ...(filter.tenantId === undefined ? [] : [sql`tenant_id = ${filter.tenantId}`]),
            // Written out, since the indexes of the rarer states are found by it.
            ...(filter.state === undefined ? [] : [sql`state = ${sql.literal(`'${filter.state}'`)}`]),
            ...(filter.origin === undefined ? [] : [sql`origin = ${filter.origin}`]),
            ...(filter.agentId === undefined ? [] : [sql`agent_id = ${filter.agentId}`]),
            ...(filter.planId === undefined ? [] : [sql`plan_id = ${filter.planId}`]),
            ...(filter.capId === undefined
              ? []
              : [
                  sql`
                    counter_ids && ARRAY(
                      SELECT k.id FROM budget_caps c JOIN budget_counters k ON k.tenant_id = c.tenant_id AND k.cap_id = c.id
                      WHERE c.id = ${filter.capId})`
                ]),
            ...(after === undefined ? [] : [sql`id < ${after}`])
          ])}
          ORDER BY id DESC LIMIT ${limit}`
      })

      const selectEnds = SqlSchema.findAll({
        Request: Schema.Array(ReservationId),
        Result: PeriodEnd,
        execute: (ids) => sql`
          SELECT r.id, k.cap_id, CASE WHEN isfinite(k.period_end) THEN k.period_end END AS ends
          FROM budget_reservations r CROSS JOIN LATERAL unnest(r.counter_ids) AS e(counter)
          JOIN budget_counters k ON k.id = e.counter
          WHERE r.id IN ${sql.in(ids)}`
      })

      return {
        /** When the periods end that reservations count in, by their caps; null: never. */
        ends: Effect.fn("ReservationsRepository.ends")((ids: ReadonlyArray<ReservationId>) =>
          ids.length === 0 ? Effect.succeed([]) : Effect.orDie(selectEnds(ids))
        ),
        find: Effect.fn("ReservationsRepository.find")((id: ReservationId) =>
          Effect.map(
            Effect.orDie(selectOne(id)),
            Option.map((row) => row.reservation)
          )
        ),
        /** The reservation that a charge belongs to. */
        charged: Effect.fn("ReservationsRepository.charged")((chargeId: ChargeId) =>
          Effect.map(
            Effect.orDie(selectCharged(chargeId)),
            Option.map((row) => row.reservation)
          )
        ),
        /** The newest first. */
        list: Effect.fn("ReservationsRepository.list")(
          (filter: ReservationFilter, after: ReservationId | undefined, limit: number) =>
            Effect.map(Effect.orDie(selectPage({ filter, after, limit })), (rows) => rows.map((row) => row.reservation))
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
