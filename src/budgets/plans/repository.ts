import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { AgentId } from "../../agents/agents/domain.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { type Moment, momentText, noteVersionOf } from "../../platform/database/database.ts"
import { makeList } from "../../platform/database/list.ts"
import { readRows } from "../../platform/database/table.ts"
import { type CallKeySlot } from "../../platform/idempotency/domain.ts"
import { PlanId, PlanStatus, Sum } from "../ledger/domain.ts"
import { planListing } from "./domain.ts"

/** A plan at the moment of a statement. */
export const StoredPlan = Schema.Struct({
  id: PlanId,
  tenantId: TenantId,
  agentId: AgentId,
  applicationId: Schema.NullOr(Schema.Int),
  taskType: Schema.NullOr(Schema.String),
  name: Schema.NullOr(Schema.String),
  status: PlanStatus,
  budget: Sum,
  spent: Sum,
  reserved: Sum,
  remaining: Sum,
  heartbeatSeconds: Schema.Int,
  heartbeatBy: Instant,
  expiresAt: Schema.NullOr(Instant),
  metadata: Schema.NullOr(Schema.Record(Schema.String, Schema.String)),
  createdAt: Instant,
  createdBy: Schema.String,
  endedAt: Schema.NullOr(Instant)
})
export type StoredPlan = typeof StoredPlan.Type

const Outcome = Schema.Union([
  Schema.Struct({ verdict: Schema.Literals(["stale", "missing", "excessive", "changed"]) }),
  Schema.Struct({ verdict: Schema.Literal("inactive"), status: PlanStatus }),
  Schema.Struct({ verdict: Schema.Literal("calls-open"), isDue: Schema.Boolean }),
  Schema.Struct({
    verdict: Schema.Literal("denied"),
    failing: Schema.Int,
    limit: Sum,
    spent: Sum,
    reserved: Sum,
    headrooms: Schema.Array(Sum),
    ends: Schema.Array(Schema.NullOr(Schema.Finite))
  }),
  Schema.Struct({
    verdict: Schema.Literals(["done", "same"]),
    plan: StoredPlan,
    /** Whether another transaction was closing one of its calls. */
    hasCalls: Schema.optionalKey(Schema.Boolean)
  }),
  Schema.Struct({ verdict: Schema.Literal("replay"), sha256: Schema.String, plan: StoredPlan })
])
export type PlanOutcome = typeof Outcome.Type

const Key = Schema.Struct({ agentId: AgentId, id: PlanId, at: Schema.UndefinedOr(Schema.DateTimeUtcFromDate) })
/** Which plans are listed; what is given must all match. */
export interface PlanFilter {
  readonly tenantId?: TenantId | undefined
  readonly agentId?: AgentId | undefined
  readonly status?: PlanStatus | undefined
}

const Row = Schema.Struct({ plan: StoredPlan })
const VersionedRow = Schema.Struct({ ...Row.fields, version: Schema.String })

/** Plans. They are changed by functions of the ledger, each of which is a transaction of its own. */
export class PlansRepository extends Context.Service<PlansRepository>()("app/budgets/PlansRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const selectOne = SqlSchema.findOneOption({
      Request: Key,
      Result: VersionedRow,
      execute: ({ agentId, at, id }) => sql`
          SELECT budget_plan_json(l, budget_moment(${at ?? null}::timestamptz)) AS plan,
            budget_plan_version(l.tenant_id, l.id) AS version FROM budget_plans l
          WHERE l.id = ${id} AND l.agent_id = ${agentId}`
    })
    const page = makeList(sql, readRows(Row), planListing, {
      from: "budget_plans",
      hasTenant: true,
      isDown: true,
      text: "lower(coalesce(t.name, ''))"
    })
    const selectReplay = SqlSchema.findOneOption({
      Request: Schema.Struct({ principal: Schema.String, route: Schema.String, key: Schema.String }),
      Result: Schema.Struct({ outcome: Outcome }),
      execute: ({ key, principal, route }) => sql`
        SELECT body::jsonb || jsonb_build_object('verdict', 'replay', 'sha256', encode(request_sha256, 'hex')) AS outcome
        FROM idempotency_keys WHERE principal = ${principal} AND route = ${route} AND key = ${key}`
    })
    const call = SqlSchema.findOne({
      Request: Schema.String,
      Result: Schema.Struct({ outcome: Outcome }),
      execute: (request) => sql`SELECT budgets_once('plan', ${request}::text::json) AS outcome`
    })

    return {
      find: Effect.fn("PlansRepository.find")((agentId: AgentId, id: PlanId, at: Moment) =>
        Effect.map(
          Effect.tap(Effect.orDie(selectOne({ agentId, id, at })), noteVersionOf),
          Option.map(({ plan }) => plan)
        )
      ),
      /** The newest first. */
      list: Effect.fn("PlansRepository.list")(function* (
        { agentId, status, tenantId }: PlanFilter,
        request: ListRequest<PlanId>,
        moment: Moment
      ) {
        const at = sql`budget_moment(${momentText(moment) ?? null}::timestamptz)`
        const { items, nextCursor } = yield* page(
          [
            ...(tenantId === undefined ? [] : [sql`t.tenant_id = ${tenantId}`]),
            ...(agentId === undefined ? [] : [sql`t.agent_id = ${agentId}`]),
            // Those that run are few, and an index has no others.
            ...(status === "active" || status === "suspended" ? [sql`t.status IN ('active', 'suspended')`] : []),
            ...(status === undefined
              ? []
              : [sql`budget_plan_status(t.status, t.heartbeat_by, t.dead_at, ${at}) = ${status}`])
          ],
          request,
          sql`budget_plan_json(t, ${at}) AS plan`
        )
        return { items: items.map(({ plan }) => plan), nextCursor }
      }),
      /** What the first change under a key came to; undefined where there was none. */
      replayOf: Effect.fn("PlansRepository.replayOf")((slot: CallKeySlot) =>
        Effect.map(Effect.orDie(selectReplay(slot)), (found) => Option.getOrUndefined(found)?.outcome)
      ),
      change: Effect.fn("PlansRepository.change")((request: object) =>
        Effect.map(Effect.orDie(call(JSON.stringify(request))), ({ outcome }) => outcome)
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
