-- Records the thresholds that locked counters have passed, each once; that of a rolling window is reset when its use
-- falls below it. Each also gets an audit entry in the same transaction, since events are published from the audit log.
CREATE OR REPLACE FUNCTION budget_note_alerts(moment timestamptz, counters uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
  entries json; places integer[]; tenants uuid[];
BEGIN
  WITH moved AS MATERIALIZED (SELECT * FROM budget_counters WHERE id = ANY (counters)), facts AS (
    SELECT b.tenant_id, b.id, b.cap_id, b.spent, b.reserved, b.fired, b.ring IS NOT NULL AS rolling,
      budget_limit(b.tenant_id, b.cap_id, b.counter_key, moment) AS lim,
      budget_forecast(b.spent, b.period_start, b.period_end, moment) AS forecast, c.alert_thresholds
    FROM moved b JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
    WHERE c.deleted_at IS NULL AND c.alert_thresholds <> '[]'
  ), passed AS (
    SELECT f.tenant_id, f.id, f.cap_id, f.spent, f.reserved, f.fired, f.rolling, f.lim, t.measure, t.percent,
      t.percent * 3 + CASE t.measure WHEN 'spent' THEN 0 WHEN 'committed' THEN 1 ELSE 2 END AS code
    FROM facts f, (SELECT DISTINCT f2.id, r.measure, r.percent FROM facts f2,
      jsonb_to_recordset(f2.alert_thresholds) AS r(measure text, percent integer)) t
    WHERE t.id = f.id AND t.percent::numeric * f.lim <= 100 * CASE t.measure
      WHEN 'spent' THEN f.spent WHEN 'committed' THEN f.spent::numeric + f.reserved ELSE f.forecast END
      AND f.spent + f.reserved > 0
  ), codes AS (
    SELECT f.tenant_id, f.id, coalesce(array_agg(DISTINCT c ORDER BY c) FILTER (WHERE c IS NOT NULL), '{}') AS fired
    FROM facts f LEFT JOIN LATERAL (
      SELECT code FROM passed p WHERE p.tenant_id = f.tenant_id AND p.id = f.id
      UNION SELECT unnest(f.fired) WHERE NOT f.rolling) AS o(c) ON true
    GROUP BY f.tenant_id, f.id
  ), kept AS (
    UPDATE budget_counters b SET fired = codes.fired FROM codes
    WHERE b.tenant_id = codes.tenant_id AND b.id = codes.id AND b.fired <> codes.fired
  ), noted AS (
    INSERT INTO budget_alerts (tenant_id, cap_id, counter_id, measure, percent, limit_amount, spent, reserved, occurred_at)
    SELECT tenant_id, cap_id, id, measure, percent, lim, spent, reserved, moment
    FROM passed WHERE NOT code = ANY (fired)
    RETURNING *
  ), worded AS (
    SELECT row_number() OVER ()::integer AS place, a.cap_id,
      nullif(a.tenant_id, '00000000-0000-0000-0000-000000000000') AS tenant,
      json_build_object('alertId', a.id, 'name', c.name, 'measure', a.measure, 'percent', a.percent,
        'unit', c.unit, 'scope', c.scope || coalesce(nullif(b.counter_key, '')::jsonb, '{}'),
        'limit', budget_quantity(c.unit, a.limit_amount), 'spent', budget_quantity(c.unit, a.spent),
        'reserved', budget_quantity(c.unit, a.reserved)) AS after
    FROM noted a
    JOIN budget_counters b ON b.tenant_id = a.tenant_id AND b.id = a.counter_id
    JOIN budget_caps c ON c.tenant_id = a.tenant_id AND c.id = a.cap_id
  )
  SELECT json_agg(json_build_object('place', w.place, 'action_type', 'BudgetCapThresholdPassed',
      'entity_type', 'BudgetCap', 'entity_id', w.cap_id, 'user_id', 'system', 'actor_type', 'system',
      'changes', json_build_object('before', NULL, 'after', w.after))),
    array_agg(w.place), array_agg(w.tenant)
  INTO entries, places, tenants FROM worded w;
  IF places IS NOT NULL THEN PERFORM budget_audit(entries, places, tenants, moment); END IF;
END
$$;

REVOKE ALL ON FUNCTION budget_note_alerts FROM PUBLIC;
