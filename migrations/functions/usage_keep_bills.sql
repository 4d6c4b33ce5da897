-- Keeps what a statement books, the earliest as of `earliest`, out of the ranges of bills that were signed or are being made:
-- moves it to now, which is after the end of each. Returns that moment, or null where nothing was moved. It is the last step of
-- each statement that books usage, after all that may wait for a lock. The shared lock marks the transactions that have taken
-- this step and not ended, which a bill waits for after it has closed its range; what takes it later sees that range.
CREATE OR REPLACE FUNCTION usage_keep_bills(written_by bigint, earliest timestamptz) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  later timestamptz;
  is_moved boolean;
BEGIN
  PERFORM pg_advisory_xact_lock_shared(hashtext('billing-closings'));
  -- Nearly always nothing was closed since. The greatest is one read of an index, whatever the planner knows of the table.
  IF coalesce((SELECT max(c.closes) FROM billing_closings c) <= earliest, true) THEN RETURN NULL; END IF;
  later := date_trunc('milliseconds', clock_timestamp());
  WITH moved AS (
    UPDATE usage_rows u SET occurred_at = later FROM usage_outbox o
    WHERE o.batch = written_by AND u.tenant_id = o.tenant_id AND u.occurred_at = o.occurred_at AND u.batch = o.batch
      AND usage_is_billed(u.tenant_id, u.agent_id, u.occurred_at)
    RETURNING u.tenant_id, u.charge_id, u.method
  ), entries AS (
    -- A refund writes its entry after this step.
    UPDATE budget_entries e SET occurred_at = later FROM moved m
    WHERE e.tenant_id = m.tenant_id AND e.id = m.charge_id AND m.method <> 'refunded'
  ), outbox AS (
    INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT DISTINCT written_by, m.tenant_id, later FROM moved m
    ON CONFLICT DO NOTHING
  )
  SELECT count(*) > 0 INTO is_moved FROM moved;
  RETURN CASE WHEN is_moved THEN later END;
END
$$;

REVOKE ALL ON FUNCTION usage_keep_bills FROM PUBLIC;
