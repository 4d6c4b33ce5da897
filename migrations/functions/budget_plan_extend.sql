-- Raises the budget of a locked plan. The amount is reserved on every cap that applies now, in its current period, or
-- nothing changes. Verdicts: done, denied, excessive (more than a plan may have).
CREATE OR REPLACE FUNCTION budget_plan_extend(p json, l budget_plans, moment timestamptz) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  wanted bigint := l.budget + (p->>'amount')::bigint;
  counters uuid[];
  rest bigint;
  rest_after bigint;
  room json;
BEGIN
  IF wanted > (p->>'most')::bigint THEN RETURN json_build_object('verdict', 'excessive'); END IF;
  counters := budget_plan_counters(p, l.counter_ids || l.id, l.tenant_id, moment);
  SELECT budget_plan_rest(l.status, l.budget, k.spent, k.reserved), budget_plan_rest(l.status, wanted, k.spent, k.reserved)
  INTO rest, rest_after FROM budget_counters k WHERE k.tenant_id = l.tenant_id AND k.id = l.id;
  room := budget_plan_room(p, counters, ARRAY(
    SELECT CASE WHEN c = ANY (l.counter_ids) THEN rest_after - rest ELSE rest_after END
    FROM unnest(counters) WITH ORDINALITY AS e(c, place) ORDER BY e.place), moment);
  IF room->>'verdict' = 'denied' THEN RETURN room; END IF;
  UPDATE budget_counters k SET spent = k.spent, reserved = k.reserved
    + CASE WHEN k.id = ANY (counters) THEN rest_after ELSE 0 END - CASE WHEN k.id = ANY (l.counter_ids) THEN rest ELSE 0 END
  WHERE k.tenant_id IN (l.tenant_id, all_tenants()) AND k.id = ANY (counters || l.counter_ids);
  UPDATE budget_plans o SET budget = wanted, counter_ids = counters,
    held_caps = n.caps, held_keys = n.keys
  FROM (
    SELECT coalesce(array_agg(c.cap ORDER BY c.place), '{}') AS caps, coalesce(array_agg(c.key ORDER BY c.place), '{}') AS keys
    FROM json_to_recordset(p->'counters') AS c(place integer, cap uuid, key text)) n
  WHERE o.tenant_id = l.tenant_id AND o.id = l.id RETURNING o.* INTO l;
  UPDATE budget_reservations r SET amount = wanted, counter_ids = counters
  WHERE r.tenant_id = l.tenant_id AND r.id = l.id;
  IF budget_has_thresholds(counters, ARRAY[l.tenant_id, all_tenants()]) THEN
    PERFORM budget_note_alerts(moment, counters);
  END IF;
  RETURN json_build_object('verdict', 'done', 'plan', budget_plan_json(l, moment));
END
$$;

REVOKE ALL ON FUNCTION budget_plan_extend FROM PUBLIC;
