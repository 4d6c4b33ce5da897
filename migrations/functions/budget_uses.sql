-- The current counters of the caps that the transaction may see, and the caps that have none yet, by the share of the limit that
-- is used; behind a place, if there is one. It reads all of them, since an index on what is used would be written by each
-- settlement; but none of the counters of plans, which have the id of their cap.
CREATE OR REPLACE FUNCTION budget_uses(moment timestamptz, tenant uuid, cap uuid, is_down boolean, after_share double precision,
  after_cap uuid, after_counter uuid, most integer)
RETURNS TABLE (cap_id uuid, counter_id uuid, share double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  seen text := current_setting('app.tenant_id', true);
  own uuid := CASE WHEN seen = '*' THEN tenant ELSE nullif(seen, '')::uuid END;
  direction text := CASE WHEN is_down THEN 'DESC' ELSE 'ASC' END;
BEGIN
  IF coalesce(seen, '') = '' OR own <> tenant THEN
    RETURN;
  END IF;
  RETURN QUERY EXECUTE format($q$
    SELECT u.cap_id, u.counter_id, u.share FROM (
      SELECT c.id AS cap_id, coalesce(b.id, '00000000-0000-0000-0000-000000000000') AS counter_id,
        CASE WHEN l.amount > 0 THEN coalesce(s.spent, 0) / l.amount WHEN s.spent > 0 THEN 1 ELSE 0 END AS share
      FROM budget_caps c
      LEFT JOIN budget_counters b ON b.tenant_id = c.tenant_id AND b.cap_id = c.id AND b.period_end > $1 AND b.period_start <= $1
        AND b.id <> b.cap_id AND %1$s
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
      WHERE c.deleted_at IS NULL AND %2$s AND (b.id IS NOT NULL OR NOT c.scope @? '$.* ? (@ == "each")')
    ) u
    WHERE %3$s ORDER BY u.share %4$s, u.cap_id %4$s, u.counter_id %4$s LIMIT $2$q$,
    CASE WHEN own IS NULL THEN 'true' ELSE format('b.tenant_id = %L', own) END,
    concat_ws(' AND ', CASE WHEN own IS NOT NULL THEN format('c.tenant_id = %L', own) END, CASE WHEN cap IS NOT NULL THEN format('c.id = %L', cap) END, 'true'),
    CASE WHEN after_share IS NULL THEN 'true' ELSE format('(u.share, u.cap_id, u.counter_id) %s (%L, %L, %L)',
      CASE WHEN is_down THEN '<' ELSE '>' END, after_share, after_cap, after_counter) END, direction)
  USING moment, most;
END
$$;

REVOKE ALL ON FUNCTION budget_uses FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_uses TO application_manager;
