-- Locks the reservations of a batch in order. If each is open, has neither plan nor approval, and is settled once, by a caller
-- that may settle it, nothing is left to decide: then `changes` are those of its counters, else null. `counters` are all of
-- these, and `owners` whose they are.
CREATE OR REPLACE FUNCTION budget_lock_plain(requests budget_closing[], OUT owners uuid[], OUT counters uuid[],
  OUT changes budget_counter_change[])
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
BEGIN
  WITH locked AS MATERIALIZED (
    SELECT b.tenant_id, b.id, b.amount, b.tokens, b.counter_ids, q.amount AS charged,
      coalesce(q.tokens, b.tokens) AS charged_tokens,
      q.kind = 'settle' AND b.state = 'open' AND b.origin = q.origin
        AND (q.unrestricted OR b.created_by = q.principal)
        AND b.plan_id IS NULL AND b.decided_at IS NULL AS is_plain
    FROM unnest(requests) q
    JOIN budget_reservations b ON b.id = q.id AND (q.tenant_id IS NULL OR b.tenant_id = q.tenant_id)
    WHERE b.origin <> 'plan'
    ORDER BY b.tenant_id, b.id FOR UPDATE OF b
  ), sums AS (
    SELECT e.counter, sum(l.amount) AS amount, sum(l.tokens) AS tokens, sum(l.charged) AS charged,
      sum(l.charged_tokens) AS charged_tokens, count(*) AS requests
    FROM locked l CROSS JOIN LATERAL unnest(l.counter_ids) AS e(counter) GROUP BY e.counter
  )
  SELECT all_tenants() || array_agg(DISTINCT l.tenant_id), ARRAY(SELECT s.counter FROM sums s),
    CASE WHEN count(*) = cardinality(requests) AND count(DISTINCT l.id) = count(*) AND bool_and(l.is_plain) THEN ARRAY(
      SELECT ROW(s.counter, s.amount, s.tokens, s.charged, s.charged_tokens, s.requests)::budget_counter_change FROM sums s) END
  INTO owners, counters, changes FROM locked l;
END
$$;

REVOKE ALL ON FUNCTION budget_lock_plain FROM PUBLIC;
