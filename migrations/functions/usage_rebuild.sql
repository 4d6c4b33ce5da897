-- Computes the roll-ups of a day (UTC) anew from its rows. Batches of the day in the outbox are folded by this and deleted.
CREATE OR REPLACE FUNCTION usage_rebuild(day date) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public SET work_mem = '64MB' AS $$
DECLARE
  opens timestamptz := day::timestamp AT TIME ZONE 'UTC';
  closes timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
  written integer;
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('usage-fold'));
  DELETE FROM usage_rollups r WHERE r.tenant_id IN (SELECT t.id FROM tenants t)
    AND r.dimension IN (0, 1, 2, 3, 4, 5, 6, 7, 8) AND r.grain IN ('d', 'h', 'q') AND r.start >= opens AND r.start < closes;
  -- One statement has one snapshot: it deletes exactly the batches whose rows it sums.
  WITH folded AS (DELETE FROM usage_outbox o WHERE o.occurred_at >= opens AND o.occurred_at < closes)
  INSERT INTO usage_rollups SELECT * FROM usage_sums(NULL, NULL, NULL, opens, closes);
  GET DIAGNOSTICS written = ROW_COUNT;
  RETURN written;
END
$$;

REVOKE ALL ON FUNCTION usage_rebuild FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_rebuild TO application_manager;
