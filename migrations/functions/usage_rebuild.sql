-- Recomputes the roll-ups of a day (UTC) from its rows. Batches of the day in the outbox are folded by this and deleted.
CREATE OR REPLACE FUNCTION usage_rebuild(day date) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public SET work_mem = '64MB' AS $$
DECLARE
  opens timestamptz := day::timestamp AT TIME ZONE 'UTC';
  closes timestamptz := (day + 1)::timestamp AT TIME ZONE 'UTC';
  parts usage_rollups[];
BEGIN
  PERFORM pg_advisory_xact_lock(hashtext('usage-fold'));
  DELETE FROM usage_rollups r USING tenants t WHERE r.tenant_id = t.id AND r.dimension BETWEEN 0 AND 8
    AND (r.grain IN ('d', 'h', 'q') AND r.day = usage_rebuild.day OR r.grain = 'w' AND r.day BETWEEN usage_week(usage_rebuild.day) AND usage_week(usage_rebuild.day) + 6);
  -- One statement has one snapshot: it deletes exactly the batches whose rows it sums.
  WITH folded AS (DELETE FROM usage_outbox o WHERE o.occurred_at >= opens AND o.occurred_at < closes)
  SELECT array_agg(p) INTO parts FROM usage_parts(NULL, NULL, NULL, opens, closes, NULL, 9::smallint) p;
  PERFORM usage_add_parts(parts);
  INSERT INTO usage_rollups SELECT * FROM usage_parts(NULL, NULL, NULL, NULL, NULL, ARRAY(
    SELECT usage_coarser(r, 'd', r.day) FROM tenants t JOIN usage_rollups r ON r.tenant_id = t.id
    WHERE r.dimension BETWEEN 0 AND 8 AND r.grain = 'h' AND r.day = usage_rebuild.day), 9::smallint);
  INSERT INTO usage_rollups SELECT * FROM usage_parts(NULL, NULL, NULL, NULL, NULL, ARRAY(
    SELECT usage_coarser(r, 'w', usage_week(r.day)) FROM tenants t JOIN usage_rollups r ON r.tenant_id = t.id
    WHERE r.dimension BETWEEN 0 AND 8 AND r.grain = 'd' AND r.day >= usage_week(usage_rebuild.day)
      AND r.day < usage_week(usage_rebuild.day) + 7), 9::smallint);
  RETURN coalesce(cardinality(parts), 0);
END
$$;

REVOKE ALL ON FUNCTION usage_rebuild FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_rebuild TO application_manager;
