-- One change of a plan, in one statement. `kind` is start, extend, completed, aborted or heartbeat; `books` are the
-- revisions of the caps that the caller has cached; `waiting` marks a retry, which waits for transactions that have
-- calls of the plan locked. Verdicts, beside those of the budget_plan_* functions: stale (the caps have changed),
-- missing, inactive (with the status).
CREATE OR REPLACE FUNCTION budgets_plan(p json) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  moment timestamptz := budget_moment((p->>'now')::timestamptz);
  kind text := p->>'kind';
  l budget_plans;
  status text;
  outcome json;
BEGIN
  IF EXISTS (
    SELECT FROM json_to_recordset(p->'books') AS b(tenant uuid, version bigint)
    LEFT JOIN budget_books k ON k.tenant_id = b.tenant WHERE coalesce(k.caps_version, 0) <> b.version
  ) THEN RETURN json_build_object('verdict', 'stale'); END IF;

  IF kind = 'start' THEN
    outcome := budget_plan_start(p, moment);
  ELSE
    IF (p->>'waiting')::boolean THEN
      PERFORM FROM budget_reservations b
      WHERE b.tenant_id = (p->>'tenant')::uuid AND b.plan_id = (p->>'id')::uuid AND b.state = 'open' AND b.origin = 'api'
      ORDER BY b.tenant_id, b.id FOR UPDATE;
    END IF;
    SELECT * INTO l FROM budget_plans o
    WHERE o.tenant_id = (p->>'tenant')::uuid AND o.id = (p->>'id')::uuid AND o.agent_id = (p->>'agent')::uuid FOR UPDATE;
    status := budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment);
    outcome := CASE
      WHEN l.id IS NULL THEN json_build_object('verdict', 'missing')
      WHEN status = 'active' OR (status = 'suspended' AND kind <> 'extend') OR (status = kind AND l.status = kind) THEN
        CASE kind WHEN 'extend' THEN budget_plan_extend(p, l, moment) WHEN 'heartbeat' THEN budget_plan_beat(l, moment)
          ELSE budget_plan_close(p, l, moment) END
      ELSE json_build_object('verdict', 'inactive', 'status', status) END;
  END IF;

  -- Heartbeats are frequent and not audited, unless one revives a plan.
  IF outcome->>'verdict' = 'done' AND (kind <> 'heartbeat' OR status = 'suspended') THEN
    PERFORM budget_audit(
      jsonb_set((p->'entries')::jsonb, '{0,changes,after}', (p->'entries'->0->'changes'->'after')::jsonb
        || jsonb_build_object('status', outcome->'plan'->>'status',
          'budgetUsd', trim_scale((outcome->'plan'->>'budget')::numeric / 1000000000),
          'spentUsd', trim_scale((outcome->'plan'->>'spent')::numeric / 1000000000)))::json,
      '{1}', ARRAY[(p->>'tenant')::uuid], moment);
  END IF;
  RETURN outcome;
END
$$;

REVOKE ALL ON FUNCTION budgets_plan FROM PUBLIC;
