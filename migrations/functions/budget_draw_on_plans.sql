-- Locks the plans of a batch, and refuses requests under one that is not active. A call draws on what its plan has reserved:
-- it is counted on the plan's counters, and needs nothing of other counters of the caps that these belong to.
CREATE OR REPLACE FUNCTION budget_draw_on_plans(moment timestamptz, needs budget_need[], requests budget_request[],
  INOUT verdicts budget_verdict[])
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  r record;
BEGIN
  PERFORM budget_lock_plans(
    ARRAY(SELECT q.tenant_id FROM unnest(requests) q WHERE q.plan_id IS NOT NULL),
    ARRAY(SELECT q.plan_id FROM unnest(requests) q WHERE q.plan_id IS NOT NULL));
  FOR r IN
    SELECT q.ordinality AS place, coalesce(l.counter_ids, '{}') AS counter_ids,
      coalesce(budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment), 'missing') AS status,
      ARRAY(
        SELECT ROW(g.place, (
          SELECT b.period_end FROM unnest(l.counter_ids, l.held_caps) AS e(counter, cap)
          JOIN budget_counters b ON b.tenant_id = needs[g.place].tenant_id AND b.id = e.counter
          WHERE e.cap = needs[g.place].cap_id LIMIT 1))::budget_governing
        FROM unnest(verdicts[q.ordinality].governs) WITH ORDINALITY g ORDER BY g.ordinality) AS governs
    FROM unnest(requests) WITH ORDINALITY q
    LEFT JOIN budget_plans l ON l.tenant_id = q.tenant_id AND l.id = q.plan_id
    WHERE q.plan_id IS NOT NULL
  LOOP
    verdicts[r.place].governs := r.governs;
    verdicts[r.place].counter_ids := r.counter_ids;
    IF verdicts[r.place].verdict IS NULL AND r.status <> 'active' THEN
      verdicts[r.place].verdict := 'plan-' || r.status;
    END IF;
  END LOOP;
END
$$;

REVOKE ALL ON FUNCTION budget_draw_on_plans FROM PUBLIC;
