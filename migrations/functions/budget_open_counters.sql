-- The counters of `needs` in the current period, in their order; those that do not exist yet are made.
CREATE OR REPLACE FUNCTION budget_open_counters(needs budget_need[], moment timestamptz) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  found uuid[] := budget_find_counters(needs, moment);
BEGIN
  IF array_position(found, NULL) IS NULL THEN RETURN found; END IF;
  INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at,
    bucket_seconds, ring_head, ring, cap_limit)
  SELECT c.tenant_id, new_id(), c.id, n.counter_key, greatest(p.starts, last.period_end), p.ends, c.unit, moment,
    ring.seconds, budget_bucket(moment, ring.seconds),
    CASE WHEN ring.seconds IS NOT NULL THEN
      array_fill(0::bigint, ARRAY[ceil(c.window_seconds::numeric / ring.seconds)::integer + 1]) END,
    CASE WHEN ring.seconds IS NULL THEN c.limit_amount END
  FROM unnest(needs) WITH ORDINALITY n
  JOIN budget_caps c ON c.tenant_id = n.tenant_id AND c.id = n.cap_id
  CROSS JOIN LATERAL budget_period(c.period, c.time_zone, c.anchor, moment) p
  CROSS JOIN LATERAL (SELECT ceil(c.window_seconds / 60.0)::integer AS seconds) ring
  LEFT JOIN LATERAL (
    SELECT max(b.period_end) AS period_end FROM budget_counters b
    WHERE b.tenant_id = n.tenant_id AND b.cap_id = n.cap_id AND b.counter_key = n.counter_key) last ON true
  -- A concurrent transaction may have created the counter since it was looked up.
  WHERE found[n.ordinality] IS NULL AND (last.period_end IS NULL OR last.period_end <= moment)
  ORDER BY c.tenant_id, c.id, n.counter_key
  ON CONFLICT DO NOTHING;
  RETURN budget_find_counters(needs, moment);
END
$$;

REVOKE ALL ON FUNCTION budget_open_counters FROM PUBLIC;
