-- The counters of caps in the current period, in the order given; NULL where a counter does not exist yet.
CREATE OR REPLACE FUNCTION budget_find_counters(tenants uuid[], caps uuid[], keys text[], moment timestamptz) RETURNS uuid[]
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT array_agg(b.id ORDER BY k.place)
  FROM unnest(tenants, caps, keys) WITH ORDINALITY AS k(tenant, cap, key, place)
  LEFT JOIN LATERAL (
    SELECT id, period_end FROM budget_counters b
    WHERE b.tenant_id = k.tenant AND b.cap_id = k.cap AND b.counter_key = k.key
    ORDER BY b.period_start DESC LIMIT 1) b ON b.period_end > moment
$$;

REVOKE ALL ON FUNCTION budget_find_counters FROM PUBLIC;
