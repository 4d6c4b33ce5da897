CREATE OR REPLACE FUNCTION budget_ring_sum(ring bigint[]) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
  SELECT coalesce(sum(b), 0)::bigint FROM unnest(ring) b
$$;

REVOKE ALL ON FUNCTION budget_ring_sum FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_ring_sum TO application_manager;
