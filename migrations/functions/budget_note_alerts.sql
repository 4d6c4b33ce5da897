-- Records the thresholds that locked counters have passed, each once; that of a rolling window is reset when its use
-- falls below it. The service decides those of a forecast, by what is written here for it in the same transaction.
CREATE OR REPLACE FUNCTION budget_note_alerts(moment timestamptz, counters uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
  alerts budget_alerts[];
BEGIN
  WITH moved AS MATERIALIZED (SELECT * FROM budget_counters WHERE id = ANY (counters)), facts AS (
    SELECT b.tenant_id, b.id, b.cap_id, b.spent, b.reserved, b.fired, b.ring IS NOT NULL AS rolling,
      b.period_start, b.period_end, budget_limit(b.tenant_id, b.cap_id, b.counter_key, moment) AS lim, c.alert_thresholds
    FROM moved b JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
    WHERE c.deleted_at IS NULL AND c.alert_thresholds <> '[]'
  ), thresholds AS (
    SELECT DISTINCT f.tenant_id, f.id, t.measure, t.percent,
      t.percent * 3 + CASE t.measure WHEN 'spent' THEN 0 WHEN 'committed' THEN 1 ELSE 2 END AS code
    FROM facts f, jsonb_to_recordset(f.alert_thresholds) AS t(measure text, percent integer)
    WHERE f.spent + f.reserved > 0
  ), passed AS (
    SELECT f.*, t.measure, t.percent, t.code
    FROM facts f JOIN thresholds t ON t.tenant_id = f.tenant_id AND t.id = f.id
    WHERE t.percent::numeric * f.lim <= 100 * CASE t.measure
      WHEN 'spent' THEN f.spent WHEN 'committed' THEN f.spent::numeric + f.reserved END
  ), codes AS (
    SELECT f.tenant_id, f.id, coalesce(array_agg(DISTINCT c ORDER BY c) FILTER (WHERE c IS NOT NULL), '{}') AS fired
    FROM facts f LEFT JOIN LATERAL (
      SELECT code FROM passed p WHERE p.tenant_id = f.tenant_id AND p.id = f.id
      UNION SELECT unnest(f.fired) WHERE NOT f.rolling) AS o(c) ON true
    GROUP BY f.tenant_id, f.id
  ), kept AS (
    UPDATE budget_counters b SET fired = codes.fired FROM codes
    WHERE b.tenant_id = codes.tenant_id AND b.id = codes.id AND b.fired <> codes.fired
  ), checks AS (
    INSERT INTO budget_forecast_checks (tenant_id, counter_id, percents, limit_amount, spent, reserved, period_start,
      period_end, occurred_at)
    SELECT f.tenant_id, f.id, t.percents, f.lim, f.spent, f.reserved, f.period_start, f.period_end, moment
    FROM facts f CROSS JOIN LATERAL (
      SELECT array_agg(t.percent ORDER BY t.percent) AS percents FROM thresholds t
      WHERE t.tenant_id = f.tenant_id AND t.id = f.id AND t.measure = 'forecast' AND NOT t.code = ANY (f.fired)) t
    WHERE t.percents IS NOT NULL AND isfinite(f.period_start) AND isfinite(f.period_end)
  )
  SELECT array_agg(ROW(p.tenant_id, new_id(), p.cap_id, p.id, p.measure, p.percent, p.lim, p.spent, p.reserved,
    moment)::budget_alerts)
  INTO alerts FROM passed p WHERE NOT p.code = ANY (p.fired);
  IF alerts IS NOT NULL THEN PERFORM budget_publish_alerts(alerts, moment); END IF;
END
$$;

REVOKE ALL ON FUNCTION budget_note_alerts FROM PUBLIC;
