-- Adds the rows of the oldest batches to the roll-ups, and deletes the batches from the outbox in the same transaction. One
-- caller at a time folds, rebuilds or verifies; the others return at once with -1.
CREATE OR REPLACE FUNCTION usage_fold(most integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  batches bigint[]; tenants uuid[]; moments timestamptz[];
BEGIN
  IF NOT pg_try_advisory_xact_lock(hashtext('usage-fold')) THEN RETURN -1; END IF;
  WITH taken AS (
    DELETE FROM usage_outbox o USING (SELECT batch, tenant_id FROM usage_outbox ORDER BY batch, tenant_id LIMIT most) k
    WHERE o.batch = k.batch AND o.tenant_id = k.tenant_id RETURNING o.*
  )
  SELECT array_agg(t.batch), array_agg(t.tenant_id), array_agg(t.occurred_at) INTO batches, tenants, moments FROM taken t;
  IF batches IS NULL THEN RETURN 0; END IF;
  INSERT INTO usage_rollups AS r SELECT * FROM usage_sums(batches, tenants, moments, NULL, NULL)
  ON CONFLICT (tenant_id, dimension, grain, start, key) DO UPDATE SET cost = r.cost + EXCLUDED.cost,
    requests = r.requests + EXCLUDED.requests, errors = r.errors + EXCLUDED.errors,
    input_tokens = r.input_tokens + EXCLUDED.input_tokens, output_tokens = r.output_tokens + EXCLUDED.output_tokens,
    cached_input_tokens = r.cached_input_tokens + EXCLUDED.cached_input_tokens, saved = r.saved + EXCLUDED.saved,
    latencies = CASE WHEN EXCLUDED.latencies IS NULL THEN r.latencies
      ELSE usage_merge_latencies(r.latencies, EXCLUDED.latencies) END;
  RETURN cardinality(batches);
END
$$;

REVOKE ALL ON FUNCTION usage_fold FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_fold TO application_manager;
