-- The sum of two histograms of usage_rollups.
CREATE OR REPLACE FUNCTION usage_merge_latencies(one bigint[], other bigint[]) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT array_agg((b.bucket << 32) + b.count ORDER BY b.bucket) FROM (
    SELECT e >> 32 AS bucket, sum(e & 4294967295)::bigint AS count FROM unnest(one || other) e GROUP BY e >> 32
  ) b
$$;
