import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // A plan's own counter, under the plan's id, has what its calls spent and hold. On the counters of `counter_ids`, of the
  // caps and keys beside them, it holds what it has left: what a call takes or gives back there moves nothing in sum.
  yield* sql`
    CREATE TABLE budget_plans (
      tenant_id uuid NOT NULL,
      id uuid NOT NULL,
      agent_id uuid NOT NULL,
      application_id integer,
      task_type text,
      name text,
      status text NOT NULL CHECK (status IN ('active', 'suspended', 'completed', 'aborted', 'expired')),
      budget bigint NOT NULL CHECK (budget >= 0),
      heartbeat_seconds integer NOT NULL CHECK (heartbeat_seconds > 0),
      heartbeat_by timestamptz NOT NULL,
      expires_at timestamptz,
      dead_at timestamptz NOT NULL,
      metadata jsonb,
      created_at timestamptz NOT NULL,
      created_by text NOT NULL,
      ended_at timestamptz,
      counter_ids uuid[] NOT NULL,
      held_caps uuid[] NOT NULL,
      held_keys text[] NOT NULL,
      PRIMARY KEY (tenant_id, id),
      CHECK ((status IN ('active', 'suspended')) = (ended_at IS NULL)),
      CHECK (cardinality(counter_ids) = cardinality(held_caps) AND cardinality(counter_ids) = cardinality(held_keys))
    ) WITH (fillfactor = 80)`
  yield* sql`CREATE INDEX budget_plans_agent ON budget_plans (tenant_id, agent_id, id)`
  yield* sql`CREATE INDEX budget_plans_id ON budget_plans (id)`
  yield* sql`CREATE INDEX budget_plans_dead ON budget_plans (dead_at) WHERE status IN ('active', 'suspended')`
  yield* sql`CREATE INDEX budget_plans_silent ON budget_plans (heartbeat_by) WHERE status = 'active'`
  yield* sql`CREATE INDEX budget_reservations_plan ON budget_reservations (tenant_id, plan_id, id) WHERE plan_id IS NOT NULL`

  yield* sql`ALTER TABLE budget_plans ENABLE ROW LEVEL SECURITY`
  yield* sql`
    CREATE POLICY budget_plans_of_tenant ON budget_plans
    USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`
  yield* sql`REVOKE INSERT, UPDATE, DELETE ON budget_plans FROM application_manager`

  // What a plan is at a moment, whether or not the sweeper has been there since.
  yield* sql`
    CREATE FUNCTION budget_plan_status(status text, heartbeat_by timestamptz, dead_at timestamptz, moment timestamptz)
    RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
      SELECT CASE
        WHEN status NOT IN ('active', 'suspended') THEN status
        WHEN dead_at <= moment THEN 'expired'
        WHEN heartbeat_by <= moment THEN 'suspended'
        ELSE status END
    $$`

  // What a plan has left, and so holds on its caps; one that has ended holds nothing.
  yield* sql`
    CREATE FUNCTION budget_plan_rest(status text, budget bigint, spent bigint, reserved bigint) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
      SELECT CASE WHEN status IN ('active', 'suspended') THEN greatest(budget - spent - reserved, 0) ELSE 0 END
    $$`

  // Plans as the service reads them; sums as text, since no double may hold them.
  yield* sql`
    CREATE FUNCTION budget_plan_json(l budget_plans, moment timestamptz) RETURNS json
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      SELECT json_build_object('id', l.id, 'tenantId', l.tenant_id, 'agentId', l.agent_id,
        'applicationId', l.application_id, 'taskType', l.task_type, 'name', l.name, 'status', s.status,
        'budget', l.budget::text, 'spent', k.spent::text, 'reserved', k.reserved::text,
        'remaining', budget_plan_rest(s.status, l.budget, k.spent, k.reserved)::text,
        'heartbeatSeconds', l.heartbeat_seconds, 'heartbeatBy', l.heartbeat_by, 'expiresAt', l.expires_at,
        'metadata', l.metadata, 'createdAt', l.created_at, 'createdBy', l.created_by,
        'endedAt', CASE WHEN s.status NOT IN ('active', 'suspended') THEN coalesce(l.ended_at, l.dead_at) END)
      FROM budget_counters k,
        (SELECT budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment) AS status) s
      WHERE k.tenant_id = l.tenant_id AND k.id = l.id
    $$`

  // Locks plans. Everybody locks reservations first, then plans, then counters, each in the order of their keys, so that
  // nobody waits in a circle.
  yield* sql`
    CREATE FUNCTION budget_lock_plans(tenants uuid[], ids uuid[]) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    BEGIN
      PERFORM FROM budget_plans l WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids)
      ORDER BY l.tenant_id, l.id FOR UPDATE;
    END
    $$`

  // What each of these plans has left, in their order.
  yield* sql`
    CREATE FUNCTION budget_plan_rests(tenants uuid[], ids uuid[]) RETURNS bigint[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      SELECT array_agg(budget_plan_rest(l.status, l.budget, k.spent, k.reserved) ORDER BY p.place)
      FROM unnest(tenants, ids) WITH ORDINALITY AS p(tenant, id, place)
      JOIN budget_plans l ON l.tenant_id = p.tenant AND l.id = p.id
      JOIN budget_counters k ON k.tenant_id = p.tenant AND k.id = p.id
    $$`

  // Makes plans hold on their caps what they have left now, where that was `rests` before.
  yield* sql`
    CREATE FUNCTION budget_plan_hold(tenants uuid[], ids uuid[], rests bigint[]) RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
      UPDATE budget_counters c SET reserved = c.reserved + d.delta
      FROM (
        SELECT o.tenant_id, o.id, sum(p.now_left - p.left_before)::bigint AS delta
        FROM unnest(tenants, ids, rests, budget_plan_rests(tenants, ids)) AS p(tenant, id, left_before, now_left)
        JOIN budget_plans l ON l.tenant_id = p.tenant AND l.id = p.id
        CROSS JOIN LATERAL unnest(l.counter_ids) AS e(counter)
        JOIN budget_counters o ON o.id = e.counter
          AND o.tenant_id IN (p.tenant, '00000000-0000-0000-0000-000000000000')
        WHERE p.now_left <> p.left_before
        GROUP BY o.tenant_id, o.id
      ) d
      WHERE c.tenant_id = d.tenant_id AND c.id = d.id AND d.delta <> 0
    $$`
})
