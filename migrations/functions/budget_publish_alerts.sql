-- Writes alerts, each with an audit entry in the same transaction, since events are published from the audit log.
CREATE OR REPLACE FUNCTION budget_publish_alerts(alerts budget_alerts[], moment timestamptz) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
  entries json; places integer[]; tenants uuid[];
BEGIN
  INSERT INTO budget_alerts SELECT a.* FROM unnest(alerts) a;
  WITH worded AS (
    SELECT a.ordinality::integer AS place, a.cap_id,
      nullif(a.tenant_id, all_tenants()) AS tenant,
      json_build_object('alertId', a.id, 'name', c.name, 'measure', a.measure, 'percent', a.percent,
        'unit', c.unit, 'scope', c.scope || coalesce(nullif(b.counter_key, '')::jsonb, '{}'),
        'limit', budget_quantity(c.unit, a.limit_amount), 'spent', budget_quantity(c.unit, a.spent),
        'reserved', budget_quantity(c.unit, a.reserved)) AS after
    FROM unnest(alerts) WITH ORDINALITY a
    JOIN budget_counters b ON b.tenant_id = a.tenant_id AND b.id = a.counter_id
    JOIN budget_caps c ON c.tenant_id = a.tenant_id AND c.id = a.cap_id
  )
  SELECT json_agg(json_build_object('place', w.place, 'action_type', 'BudgetCapThresholdPassed',
      'entity_type', 'BudgetCap', 'entity_id', w.cap_id, 'user_id', 'system', 'actor_type', 'system',
      'changes', json_build_object('before', NULL, 'after', w.after))),
    array_agg(w.place), array_agg(w.tenant)
  INTO entries, places, tenants FROM worded w;
  PERFORM budget_audit(entries, places, tenants, moment);
END
$$;

REVOKE ALL ON FUNCTION budget_publish_alerts FROM PUBLIC;
