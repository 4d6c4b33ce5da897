-- The bucket of a latency in milliseconds: the power of 1.1 that bounds it, so that the middle of the bucket is within 5 %; null of
-- what has none.
CREATE OR REPLACE FUNCTION usage_latency_bucket(latency_ms bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN latency_ms > 1 THEN ceil(ln(latency_ms::double precision) / ln(1.1::double precision))::integer
    WHEN latency_ms IS NOT NULL THEN least(latency_ms, 1)::integer - 1 END
$$;
