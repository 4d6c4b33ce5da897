-- Writes what a batch adds to its counters, and the alerts that follow. Counters that it made for requests which are not
-- counted on them are deleted.
CREATE OR REPLACE FUNCTION budget_write_counters(moment timestamptz, states budget_counter_state[], verdicts budget_verdict[])
RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
BEGIN
  IF EXISTS (SELECT FROM unnest(verdicts) v WHERE v.verdict NOT IN ('open', 'held', 'replay')) THEN
    DELETE FROM budget_counters b USING unnest(states) s
    WHERE b.tenant_id = s.tenant_id AND b.id = s.id AND b.created_at = moment AND b.xmin = pg_current_xact_id()::xid
      AND b.spent = 0 AND b.reserved = 0 AND s.added = 0
      AND NOT EXISTS (
        SELECT FROM unnest(verdicts) v WHERE v.verdict IN ('open', 'held') AND b.id = ANY (v.counter_ids));
  END IF;
  -- `spent` is named so that the trigger budget_counters_guard looks at the sum, which may not exceed a bigint.
  UPDATE budget_counters b SET spent = b.spent, reserved = b.reserved + s.added
  FROM unnest(states) s WHERE s.added > 0 AND b.tenant_id = s.tenant_id AND b.id = s.id;
  IF EXISTS (SELECT FROM unnest(states) s WHERE s.has_thresholds) THEN
    PERFORM budget_note_alerts(moment, ARRAY(SELECT s.id FROM unnest(states) s));
  END IF;
END
$$;

REVOKE ALL ON FUNCTION budget_write_counters FROM PUBLIC;
