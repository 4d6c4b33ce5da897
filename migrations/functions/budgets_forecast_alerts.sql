-- Deletes checks of forecasts, and records the percents that each has passed. Another replica may have decided the same
-- checks: those that it has deleted are left out, and a threshold that a counter has passed is recorded once.
CREATE OR REPLACE FUNCTION budgets_forecast_alerts(p json) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET enable_material = off AS $$
DECLARE
  moment timestamptz := budget_moment((p->>'now')::timestamptz);
  checks budget_forecast_checks[];
  alerts budget_alerts[];
BEGIN
  WITH decided AS (
    DELETE FROM budget_forecast_checks c
    USING (SELECT * FROM json_to_recordset(p->'checks') AS d(id uuid, percents integer[]) ORDER BY id) d
    WHERE c.id = d.id
    RETURNING c.tenant_id, c.id, c.counter_id, d.percents, c.limit_amount, c.spent, c.reserved, c.period_start,
      c.period_end, c.occurred_at)
  SELECT array_agg(ROW(d.*)::budget_forecast_checks) INTO checks FROM decided d WHERE d.percents <> '{}';
  PERFORM FROM budget_counters b
  WHERE b.id = ANY (ARRAY(SELECT c.counter_id FROM unnest(checks) c)) ORDER BY b.tenant_id, b.id FOR UPDATE;
  SELECT array_agg(ROW(c.tenant_id, new_id(), c.cap_id, c.counter_id, 'forecast', c.percent, c.limit_amount, c.spent,
    c.reserved, c.occurred_at)::budget_alerts)
  INTO alerts FROM (
    SELECT DISTINCT ON (k.counter_id, percent) k.*, percent, b.cap_id
    FROM unnest(checks) k CROSS JOIN unnest(k.percents) percent
    JOIN budget_counters b ON b.tenant_id = k.tenant_id AND b.id = k.counter_id
      AND NOT ROW('forecast', percent)::budget_threshold = ANY (b.passed)
    ORDER BY k.counter_id, percent, k.id) c;
  IF alerts IS NOT NULL THEN
    UPDATE budget_counters b SET passed = ARRAY(SELECT threshold FROM unnest(b.passed || a.thresholds) threshold ORDER BY 1)
    FROM (SELECT tenant_id, counter_id,
      array_agg(ROW('forecast', percent)::budget_threshold) AS thresholds FROM unnest(alerts)
      GROUP BY tenant_id, counter_id) a
    WHERE b.tenant_id = a.tenant_id AND b.id = a.counter_id;
    PERFORM budget_publish_alerts(alerts, moment);
  END IF;
  RETURN json_build_object('alerts', coalesce(cardinality(alerts), 0));
END
$$;

REVOKE ALL ON FUNCTION budgets_forecast_alerts FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_forecast_alerts TO application_manager;
