-- A ring of buckets, moved on to another newest bucket: as many of the oldest fall out as pass.
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
