-- Milliseconds as usage rows have them: up to 24 days.
CREATE OR REPLACE FUNCTION usage_millis(latency_ms bigint) RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN latency_ms > 2147483647 THEN 2147483647 ELSE latency_ms END::integer
$$;
