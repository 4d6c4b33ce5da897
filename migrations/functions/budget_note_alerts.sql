-- Records the thresholds that locked counters have passed, each once; that of a rolling window is reset when its use
-- falls below it. The service decides those of a forecast, by what is written here for it in the same transaction.
CREATE OR REPLACE FUNCTION budget_note_alerts(moment timestamptz, counters uuid[]) RETURNS void
LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
DECLARE
  alerts budget_alerts[];
BEGIN
  WITH moved AS MATERIALIZED (
    SELECT * FROM budget_counters WHERE id = ANY (counters)
  ), counter AS (
    SELECT moved.tenant_id, moved.id, moved.cap_id, moved.spent, moved.reserved, moved.passed,
      moved.ring IS NOT NULL AS is_rolling, moved.period_start, moved.period_end, cap.alert_thresholds,
      budget_limit(moved.tenant_id, moved.cap_id, moved.counter_key, moment) AS limit_amount
    FROM moved JOIN budget_caps cap ON cap.tenant_id = moved.tenant_id AND cap.id = moved.cap_id
    WHERE cap.deleted_at IS NULL AND cap.alert_thresholds <> '[]'
  ), declared AS (
    SELECT DISTINCT counter.tenant_id, counter.id AS counter_id, ROW(alert.measure, alert.percent)::budget_threshold AS threshold
    FROM counter CROSS JOIN LATERAL jsonb_to_recordset(counter.alert_thresholds) AS alert(measure text, percent integer)
    WHERE counter.spent + counter.reserved > 0
  ), reached AS (
    SELECT counter.*, declared.threshold
    FROM counter JOIN declared ON declared.tenant_id = counter.tenant_id AND declared.counter_id = counter.id
    WHERE (declared.threshold).percent::numeric * counter.limit_amount <= 100 * CASE (declared.threshold).measure
      WHEN 'spent' THEN counter.spent WHEN 'committed' THEN counter.spent::numeric + counter.reserved END
  ), remembered AS (
    SELECT counter.tenant_id, counter.id AS counter_id, ARRAY(
      SELECT reached.threshold FROM reached WHERE reached.tenant_id = counter.tenant_id AND reached.id = counter.id
      UNION SELECT threshold FROM unnest(counter.passed) threshold WHERE NOT counter.is_rolling ORDER BY 1) AS passed
    FROM counter
  ), kept AS (
    UPDATE budget_counters b SET passed = remembered.passed FROM remembered
    WHERE b.tenant_id = remembered.tenant_id AND b.id = remembered.counter_id AND b.passed <> remembered.passed
  ), checks AS (
    INSERT INTO budget_forecast_checks (tenant_id, counter_id, percents, limit_amount, spent, reserved, period_start,
      period_end, occurred_at)
    SELECT counter.tenant_id, counter.id, forecast.percents, counter.limit_amount, counter.spent, counter.reserved,
      counter.period_start, counter.period_end, moment
    FROM counter CROSS JOIN LATERAL (
      SELECT array_agg((declared.threshold).percent ORDER BY (declared.threshold).percent) AS percents FROM declared
      WHERE declared.tenant_id = counter.tenant_id AND declared.counter_id = counter.id
        AND (declared.threshold).measure = 'forecast' AND NOT declared.threshold = ANY (counter.passed)) forecast
    WHERE forecast.percents IS NOT NULL AND isfinite(counter.period_start) AND isfinite(counter.period_end)
  )
  SELECT array_agg(ROW(reached.tenant_id, new_id(), reached.cap_id, reached.id, (reached.threshold).measure,
    (reached.threshold).percent, reached.limit_amount, reached.spent, reached.reserved, moment)::budget_alerts)
  INTO alerts FROM reached WHERE NOT reached.threshold = ANY (reached.passed);
  IF alerts IS NOT NULL THEN PERFORM budget_publish_alerts(alerts, moment); END IF;
END
$$;

REVOKE ALL ON FUNCTION budget_note_alerts FROM PUBLIC;
