-- Checks `needs` against the locked counters of a request, and returns the headroom of each. The first counter without
-- enough fails. Plans are not subject to approval, so a cap of mode `approval` denies them as a hard cap does.
CREATE OR REPLACE FUNCTION budget_plan_room(p json, counters uuid[], needs bigint[], moment timestamptz) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  WITH standing AS (
    SELECT k.place, b.spent, b.reserved, budget_limit(b.tenant_id, b.cap_id, b.counter_key, moment) AS lim,
      c.status = 'active' AND c.deleted_at IS NULL AND c.mode <> 'soft' AS binds, k.need,
      CASE WHEN isfinite(b.period_end) THEN (extract(epoch FROM b.period_end) * 1000)::bigint END AS ends
    FROM json_to_recordset(p->'counters') AS n(place integer, tenant uuid)
    JOIN unnest(counters, needs) WITH ORDINALITY AS k(id, need, place) ON k.place = n.place
    JOIN budget_counters b ON b.tenant_id = n.tenant AND b.id = k.id
    JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
  ), failing AS (
    SELECT * FROM standing WHERE need > 0 AND spent::numeric + reserved + need > CASE WHEN binds THEN lim ELSE 9223372036854775807 END
    ORDER BY place LIMIT 1
  )
  SELECT json_build_object('verdict', CASE WHEN EXISTS (SELECT FROM failing) THEN 'denied' ELSE 'done' END,
    'failing', (SELECT place FROM failing), 'limit', (SELECT lim::text FROM failing),
    'spent', (SELECT spent::text FROM failing), 'reserved', (SELECT reserved::text FROM failing),
    'headrooms', coalesce((SELECT json_agg(greatest(lim::numeric - spent - reserved, 0)::text ORDER BY place) FROM standing), '[]'),
    'ends', coalesce((SELECT json_agg(ends ORDER BY place) FROM standing), '[]'))
$$;

REVOKE ALL ON FUNCTION budget_plan_room FROM PUBLIC;
