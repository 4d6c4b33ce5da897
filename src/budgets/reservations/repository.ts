import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type AgentId } from "../../agents/agents/domain.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { noteVersionOf } from "../../platform/database/database.ts"
import { makeList } from "../../platform/database/list.ts"
import { readRows } from "../../platform/database/table.ts"
import {
  CapId,
  ChargeId,
  type Origin,
  type PlanId,
  ReservationId,
  type ReservationState,
  StoredReservation
} from "../ledger/domain.ts"
import { reservationListing } from "./domain.ts"

/** How many principals of each kind a search looks for. */
const maxPrincipals = 20

/** Which reservations are listed; what is given must all match. */
export interface ReservationFilter {
  readonly tenantId?: TenantId | undefined
  readonly state?: ReservationState | undefined
  readonly origin?: Origin | undefined
  readonly agentId?: AgentId | undefined
  readonly planId?: PlanId | undefined
  readonly capId?: CapId | undefined
}

const Row = Schema.Struct({ reservation: StoredReservation })
const VersionedRow = Schema.Struct({ ...Row.fields, version: Schema.String })
const PeriodEnd = Schema.Struct({ id: ReservationId, capId: CapId, ends: Schema.NullOr(InstantFromDate) })
export type PeriodEnd = typeof PeriodEnd.Type

// As the ledger's own statements write it, but with the names that the schema has.
const columns = `
  json_build_object('tenantId', t.tenant_id, 'id', t.id, 'state', t.state, 'origin', t.origin, 'agentId', t.agent_id,
    'planId', t.plan_id, 'applicationId', t.application_id, 'apiKeyId', t.api_key_id, 'userId', t.user_id,
    'model', t.model, 'provider', t.provider, 'taskType', t.task_type, 'amount', t.amount, 'tokens', t.tokens,
    'ttlSeconds', t.ttl_seconds, 'expiresAt', t.expires_at, 'createdAt', t.created_at, 'createdBy', t.created_by,
    'metadata', t.metadata, 'counterIds', t.counter_ids, 'answer', NULL, 'decidedAt', t.decided_at,
    'decidedBy', t.decided_by, 'decisionReason', t.decision_reason, 'closedAt', t.closed_at, 'chargeId', t.charge_id,
    'actual', t.actual, 'actualTokens', t.actual_tokens, 'late', t.late) AS reservation`

/** Reads reservations; only the ledger changes them. */
export class ReservationsRepository extends Context.Service<ReservationsRepository>()(
  "app/budgets/ReservationsRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const all = sql.literal(columns)
      const selectOne = SqlSchema.findOneOption({
        Request: ReservationId,
        Result: VersionedRow,
        execute: (id) => sql`SELECT ${all}, t.xmin::text AS version FROM budget_reservations t WHERE id = ${id}`
      })
      const selectCharged = SqlSchema.findOneOption({
        Request: ChargeId,
        Result: Row,
        execute: (chargeId) => sql`
          SELECT ${all} FROM budget_entries e
          JOIN budget_reservations t ON t.tenant_id = e.tenant_id AND t.id = e.reservation_id
          WHERE e.id = ${chargeId} AND e.kind = 'charge'`
      })
      const page = makeList(sql, readRows(Row), reservationListing, {
        from: "budget_reservations",
        columns,
        hasTenant: true,
        isDown: true,
        text: "lower(concat_ws(' ', t.model, t.provider, t.task_type, t.user_id, t.created_by))",
        mentions: (pattern) => sql`t.created_by = ANY (ARRAY(SELECT search_principals(${pattern}, ${maxPrincipals})))`
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
            Effect.tap(Effect.orDie(selectOne(id)), noteVersionOf),
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
        list: Effect.fn("ReservationsRepository.list")(function* (
          filter: ReservationFilter,
          request: ListRequest<ReservationId>
        ) {
          const { items, nextCursor } = yield* page(
            [
              ...(filter.tenantId === undefined ? [] : [sql`t.tenant_id = ${filter.tenantId}`]),
              // Written out, since the indexes of the rarer states are found by it.
              ...(filter.state === undefined ? [] : [sql`t.state = ${sql.literal(`'${filter.state}'`)}`]),
              ...(filter.origin === undefined ? [] : [sql`t.origin = ${filter.origin}`]),
              ...(filter.agentId === undefined ? [] : [sql`t.agent_id = ${filter.agentId}`]),
              ...(filter.planId === undefined ? [] : [sql`t.plan_id = ${filter.planId}`]),
              ...(filter.capId === undefined
                ? []
                : [
                    sql`
                    t.counter_ids && ARRAY(
                      SELECT k.id FROM budget_caps c JOIN budget_counters k ON k.tenant_id = c.tenant_id AND k.cap_id = c.id
                      WHERE c.id = ${filter.capId})`
                  ])
            ],
            request
          )
          return { items: items.map(({ reservation }) => reservation), nextCursor }
        })
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
