-- Counters that differ from the sum of their entries and open reservations, or whose level is not of what they spent. The sums are computed once and joined,
-- since a lookup per counter would read all entries once for each counter.
CREATE OR REPLACE FUNCTION budgets_drift()
RETURNS TABLE (tenant_id uuid, cap_id uuid, counter_id uuid, counter_key text, spent bigint, spent_fold numeric,
  reserved bigint, reserved_fold numeric)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public SET work_mem = '64MB' AS $$
  WITH charged AS MATERIALIZED (
    SELECT t.counter, t.bucket, sum(e.amount) AS usd, sum(e.tokens) AS tokens, sum(e.requests) AS requests
    FROM budget_entries e CROSS JOIN LATERAL unnest(e.counter_ids, e.buckets) AS t(counter, bucket) GROUP BY 1, 2
  ), plan_spent AS (
    SELECT r.tenant_id, r.plan_id, sum(e.amount) AS usd FROM budget_entries e
    JOIN budget_reservations r ON r.tenant_id = e.tenant_id AND r.id = e.reservation_id
    WHERE r.plan_id IS NOT NULL GROUP BY 1, 2
  ), plan_open AS (
    SELECT r.tenant_id, r.plan_id, sum(r.amount) AS usd FROM budget_reservations r
    WHERE r.plan_id IS NOT NULL AND r.origin <> 'plan' AND r.state = 'open' GROUP BY 1, 2
  ), single AS (
    SELECT r.counter_ids, r.amount::numeric AS usd, r.tokens::numeric AS tokens, 1::numeric AS requests
    FROM budget_reservations r WHERE r.state = 'open' AND r.origin <> 'plan'
    UNION ALL
    SELECT l.counter_ids, greatest(l.budget - coalesce(s.usd, 0) - coalesce(o.usd, 0), 0), 0, 0
    FROM budget_plans l
    LEFT JOIN plan_spent s ON s.tenant_id = l.tenant_id AND s.plan_id = l.id
    LEFT JOIN plan_open o ON o.tenant_id = l.tenant_id AND o.plan_id = l.id
    WHERE l.status IN ('active', 'suspended')
  ), held AS (
    SELECT c AS counter, sum(r.usd) AS usd, sum(r.tokens) AS tokens, sum(r.requests) AS requests
    FROM single r CROSS JOIN LATERAL unnest(r.counter_ids) AS c GROUP BY 1
  ), spent AS (
    SELECT b.id, sum(CASE b.unit WHEN 'usd' THEN c.usd WHEN 'tokens' THEN c.tokens ELSE c.requests END) AS fold
    FROM budget_counters b JOIN charged c ON c.counter = b.id
    WHERE b.ring IS NULL OR c.bucket > b.ring_head - cardinality(b.ring) GROUP BY b.id
  ), slots AS (
    SELECT b.id, b.unit, g.amount, b.ring_head - cardinality(b.ring) + g.slot AS bucket
    FROM budget_counters b CROSS JOIN LATERAL unnest(b.ring) WITH ORDINALITY AS g(amount, slot) WHERE b.ring IS NOT NULL
  ), differing AS (
    SELECT DISTINCT s.id FROM slots s LEFT JOIN charged c ON c.counter = s.id AND c.bucket = s.bucket
    WHERE s.amount <> coalesce(CASE s.unit WHEN 'usd' THEN c.usd WHEN 'tokens' THEN c.tokens ELSE c.requests END, 0)
  ), folded AS (
    SELECT b.tenant_id, b.cap_id, b.id, b.counter_key, b.spent, coalesce(s.fold, 0) AS spent_fold, b.reserved,
      coalesce(CASE b.unit WHEN 'usd' THEN h.usd WHEN 'tokens' THEN h.tokens ELSE h.requests END, 0) AS reserved_fold,
      d.id IS NOT NULL AS ring_differs,
      b.use_level IS DISTINCT FROM budget_counter_level(b.spent, b.cap_limit) AS level_differs
    FROM budget_counters b
    LEFT JOIN spent s ON s.id = b.id
    LEFT JOIN held h ON h.counter = b.id
    LEFT JOIN differing d ON d.id = b.id
  )
  SELECT tenant_id, cap_id, id, counter_key, spent, spent_fold, reserved, reserved_fold FROM folded
  WHERE spent <> spent_fold OR reserved <> reserved_fold OR ring_differs OR level_differs
$$;

REVOKE ALL ON FUNCTION budgets_drift FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_drift TO application_manager;
