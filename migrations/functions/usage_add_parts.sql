-- Adds parts to the roll-ups. Where they are the first of a tenant in a dimension, all that was before is without a value of
-- it, so the parts of all rows become parts of the dimension, too. For the caller that folds.
CREATE OR REPLACE FUNCTION usage_add_parts(parts usage_rollups[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
BEGIN
  INSERT INTO usage_rollups
  SELECT r.tenant_id, n.dimension, r.grain, r.day, r.level, r.keys, r.places, r.cost, r.requests, r.errors, r.input_tokens,
    r.output_tokens, r.cached_input_tokens, r.saved, r.latency_ends, r.latency_buckets, r.latency_calls
  FROM (SELECT DISTINCT p.tenant_id, p.dimension FROM unnest(parts) p WHERE p.dimension > 0) n
  JOIN usage_rollups r ON r.tenant_id = n.tenant_id AND r.dimension = 0 AND r.grain <> 'q'
  WHERE NOT EXISTS (SELECT FROM usage_rollups e WHERE e.tenant_id = n.tenant_id AND e.dimension = n.dimension);
  INSERT INTO usage_rollups SELECT * FROM unnest(parts);
END
$$;

REVOKE ALL ON FUNCTION usage_add_parts FROM PUBLIC;
