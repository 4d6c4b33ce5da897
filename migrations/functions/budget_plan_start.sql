-- Starts a plan: reserves its budget on all of the given counters, or on none. Verdicts: done, denied.
CREATE OR REPLACE FUNCTION budget_plan_start(p json, moment timestamptz) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  tenant uuid := p->>'tenant';
  plan uuid := p->>'id';
  budget bigint := p->>'amount';
  heartbeat interval := make_interval(secs => (p->>'heartbeat')::integer);
  expiry timestamptz := moment + make_interval(secs => (p->>'expires')::integer);
  counters uuid[];
  room json;
  l budget_plans;
BEGIN
  counters := budget_plan_counters(p, '{}', tenant, moment);
  room := budget_plan_room(p, counters, array_fill(budget, ARRAY[cardinality(counters)]), moment);
  IF room->>'verdict' = 'denied' THEN RETURN room; END IF;
  INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at)
  VALUES (tenant, plan, plan, '', '-infinity', 'infinity', 'usd', moment);
  INSERT INTO budget_plans (tenant_id, id, agent_id, application_id, task_type, name, status, budget, heartbeat_seconds,
    heartbeat_by, expires_at, dead_at, metadata, created_at, created_by, counter_ids, held_caps, held_keys)
  SELECT tenant, plan, (p->>'agent')::uuid, (p->>'application')::integer, p->>'task_type', p->>'name', 'active', budget,
    (p->>'heartbeat')::integer, moment + heartbeat, expiry, least(moment + 2 * heartbeat, expiry),
    CASE json_typeof(p->'metadata') WHEN 'object' THEN (p->'metadata')::jsonb END, moment, p->>'principal', counters,
    coalesce(array_agg(c.cap ORDER BY c.place), '{}'), coalesce(array_agg(c.key ORDER BY c.place), '{}')
  FROM json_to_recordset(p->'counters') AS c(place integer, cap uuid, key text)
  RETURNING * INTO l;
  PERFORM budget_plan_hold(ARRAY[tenant], ARRAY[plan], ARRAY[0::bigint]);
  INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, application_id, task_type, amount,
    tokens, ttl_seconds, expires_at, created_at, created_by, counter_ids)
  VALUES (tenant, plan, 'open', 'plan', l.agent_id, plan, l.application_id, l.task_type, budget, 0,
    l.heartbeat_seconds, coalesce(expiry, '9999-12-31T00:00:00Z'), moment, l.created_by, counters);
  IF budget_has_thresholds(counters, ARRAY[tenant, all_tenants()]) THEN
    PERFORM budget_note_alerts(moment, counters);
  END IF;
  RETURN json_build_object('verdict', 'done', 'plan', budget_plan_json(l, moment));
END
$$;

REVOKE ALL ON FUNCTION budget_plan_start FROM PUBLIC;
