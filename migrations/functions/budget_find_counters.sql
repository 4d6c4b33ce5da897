-- The counters of `needs` in the current period, in their order; NULL where a counter does not exist yet.
CREATE OR REPLACE FUNCTION budget_find_counters(needs budget_need[], moment timestamptz) RETURNS uuid[]
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT array_agg(b.id ORDER BY n.ordinality)
  FROM unnest(needs) WITH ORDINALITY n
  LEFT JOIN LATERAL (
    SELECT id, period_end FROM budget_counters b
    WHERE b.tenant_id = n.tenant_id AND b.cap_id = n.cap_id AND b.counter_key = n.counter_key
    ORDER BY b.period_start DESC LIMIT 1) b ON b.period_end > moment
$$;

REVOKE ALL ON FUNCTION budget_find_counters FROM PUBLIC;
