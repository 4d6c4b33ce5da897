-- Brings current counters in line with the limits of their caps that were changed; returns how many, at most so many. A cap is
-- in line a minute after its change, so that a counter which was being opened then is seen too.
CREATE OR REPLACE FUNCTION budgets_follow_limits(given timestamptz, most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  moment timestamptz := budget_moment(given);
  followed integer;
BEGIN
  WITH behind AS MATERIALIZED (
    SELECT b.tenant_id, b.id, c.limit_amount FROM budget_caps c
    JOIN budget_counters b ON b.tenant_id = c.tenant_id AND b.cap_id = c.id AND b.period_end > moment
    WHERE c.limit_changed_at IS NOT NULL AND b.cap_limit <> c.limit_amount
    ORDER BY b.tenant_id, b.id LIMIT most FOR UPDATE OF b SKIP LOCKED
  )
  UPDATE budget_counters b SET cap_limit = e.limit_amount, use_level = budget_counter_level(b.spent, e.limit_amount)
  FROM behind e WHERE b.tenant_id = e.tenant_id AND b.id = e.id;
  GET DIAGNOSTICS followed = ROW_COUNT;
  UPDATE budget_caps c SET limit_changed_at = NULL
  WHERE c.limit_changed_at < moment - interval '1 minute' AND NOT EXISTS (
    SELECT FROM budget_counters b WHERE b.tenant_id = c.tenant_id AND b.cap_id = c.id AND b.period_end > moment
      AND b.cap_limit <> c.limit_amount);
  RETURN followed;
END
$$;

REVOKE ALL ON FUNCTION budgets_follow_limits FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_follow_limits TO application_manager;
