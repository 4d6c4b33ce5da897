-- Caps `c` with their current counters `b`, as `source` joins them, by the share of the limit and its grants that is used; of
-- these uses `u` those that `wanted` chooses.
CREATE OR REPLACE FUNCTION budget_uses_of(moment timestamptz, source text, wanted text, is_down boolean, most integer)
RETURNS TABLE (cap_id uuid, counter_id uuid, share double precision)
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public AS $$
BEGIN
  RETURN QUERY EXECUTE format($q$
    SELECT u.cap_id, u.counter_id, u.share FROM (
      SELECT c.id AS cap_id, coalesce(b.id, '00000000-0000-0000-0000-000000000000') AS counter_id,
        CASE WHEN l.amount > 0 THEN coalesce(s.spent, 0) / l.amount WHEN s.spent > 0 THEN 1 ELSE 0 END AS share
      FROM %1$s
      LEFT JOIN (
        SELECT g.cap_id, g.counter_key, sum(g.amount) AS amount FROM budget_grants g
        WHERE g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > $1) GROUP BY 1, 2
      ) a ON a.cap_id = c.id AND a.counter_key IS NULL
      LEFT JOIN (
        SELECT g.cap_id, g.counter_key, sum(g.amount) AS amount FROM budget_grants g
        WHERE g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > $1) GROUP BY 1, 2
      ) o ON o.cap_id = c.id AND o.counter_key = b.counter_key
      CROSS JOIN LATERAL (
        SELECT c.limit_amount + coalesce(a.amount, 0)::double precision + coalesce(o.amount, 0)::double precision AS amount) l
      CROSS JOIN LATERAL (
        SELECT CASE WHEN b.ring IS NULL THEN b.spent::double precision ELSE budget_ring_sum(budget_ring_at(b.ring, b.ring_head,
          budget_bucket($1, b.bucket_seconds))) END AS spent) s
      WHERE c.deleted_at IS NULL AND (b.id IS NOT NULL OR NOT c.scope @? '$.* ? (@ == "each")')
    ) u
    WHERE %2$s ORDER BY u.share %3$s, u.cap_id %3$s, u.counter_id %3$s LIMIT $2$q$,
    source, wanted, CASE WHEN is_down THEN 'DESC' ELSE 'ASC' END)
  USING moment, most;
END
$$;

REVOKE ALL ON FUNCTION budget_uses_of FROM PUBLIC;
