-- Adds a part with the sums of the oldest batches to the roll-ups, and deletes the batches from the outbox in the same
-- transaction. Parts that have become many become one. One caller at a time folds, rebuilds or verifies; the others return
-- at once with -1.
CREATE OR REPLACE FUNCTION usage_fold(most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_mergejoin = off SET work_mem = '32MB' AS $$
DECLARE
  batches bigint[]; tenants uuid[]; moments timestamptz[];
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('usage-fold')) THEN RETURN -1; END IF;
  WITH taken AS (
    DELETE FROM usage_outbox o USING (SELECT batch, tenant_id FROM usage_outbox ORDER BY batch, tenant_id LIMIT most) k
    WHERE o.batch = k.batch AND o.tenant_id = k.tenant_id RETURNING o.*
  )
  SELECT array_agg(t.batch), array_agg(t.tenant_id), array_agg(t.occurred_at) INTO batches, tenants, moments FROM taken t;
  IF batches IS NOT NULL THEN
    INSERT INTO usage_rollups SELECT (part).* FROM (
      SELECT unnest(CASE p.grain WHEN 'q' THEN ARRAY[p]
        ELSE ARRAY[p, usage_coarser(p, 'd'), usage_coarser(p, 'w')] END) AS part
      FROM usage_parts(batches, tenants, moments, NULL, NULL, NULL, 0::smallint) p OFFSET 0
    ) made;
  END IF;
  PERFORM usage_merge();
  RETURN coalesce(cardinality(batches), 0);
END
$$;

REVOKE ALL ON FUNCTION usage_fold FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_fold TO application_manager;
