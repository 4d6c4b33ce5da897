-- A part by hour or day as one of a day or a week, which begins on `day`: its cells stay as they are, so a key may have several.
CREATE OR REPLACE FUNCTION usage_coarser(r usage_rollups, grain "char", day date) RETURNS usage_rollups
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, public AS $$
  SELECT ROW(r.tenant_id, r.dimension, grain, day, r.level,
    r.keys, array_fill(0::smallint, ARRAY[cardinality(r.keys)]), r.cost, r.requests, r.errors, r.input_tokens,
    r.output_tokens, r.cached_input_tokens, r.saved, r.latency_ends, r.latency_buckets,
    r.latency_calls)::usage_rollups
$$;

REVOKE ALL ON FUNCTION usage_coarser FROM PUBLIC;
