-- The current bucket of each counter; -1 for a counter without buckets.
CREATE OR REPLACE FUNCTION budget_buckets(tenant uuid, counters uuid[]) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT coalesce(array_agg(coalesce(c.ring_head, -1) ORDER BY e.place), '{}')
  FROM unnest(counters) WITH ORDINALITY AS e(id, place)
  JOIN budget_counters c ON c.id = e.id AND c.tenant_id IN (tenant, all_tenants())
$$;

REVOKE ALL ON FUNCTION budget_buckets FROM PUBLIC;
