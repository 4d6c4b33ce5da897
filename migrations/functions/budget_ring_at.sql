-- Advances a ring of buckets to a newer head; the oldest buckets are dropped.
CREATE OR REPLACE FUNCTION budget_ring_at(ring bigint[], head bigint, bucket bigint) RETURNS bigint[]
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
  SELECT CASE
    WHEN bucket <= head THEN ring
    WHEN bucket - head >= cardinality(ring) THEN array_fill(0::bigint, ARRAY[cardinality(ring)])
    ELSE ring[(bucket - head + 1)::integer:] || array_fill(0::bigint, ARRAY[(bucket - head)::integer])
  END
$$;

REVOKE ALL ON FUNCTION budget_ring_at FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_ring_at TO application_manager;
