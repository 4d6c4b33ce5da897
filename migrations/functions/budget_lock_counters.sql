CREATE OR REPLACE FUNCTION budget_lock_counters(tenants uuid[], counters uuid[], moment timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  rolls boolean;
BEGIN
  SELECT coalesce(bool_or(l.rolls), false) INTO rolls FROM (
    SELECT b.ring IS NOT NULL AS rolls FROM budget_counters b WHERE b.tenant_id = ANY (tenants) AND b.id = ANY (counters)
    ORDER BY b.tenant_id, b.id FOR UPDATE) l;
  IF rolls THEN
    UPDATE budget_counters b SET ring = moved.ring, ring_head = moved.head, spent = budget_ring_sum(moved.ring)
    FROM (
      SELECT o.tenant_id, o.id, n.head, budget_ring_at(o.ring, o.ring_head, n.head) AS ring
      FROM budget_counters o CROSS JOIN LATERAL (SELECT budget_bucket(moment, o.bucket_seconds) AS head) n
      WHERE o.tenant_id = ANY (tenants) AND o.id = ANY (counters) AND o.ring IS NOT NULL AND n.head > o.ring_head
    ) moved
    WHERE b.tenant_id = moved.tenant_id AND b.id = moved.id;
  END IF;
  RETURN rolls;
END
$$;

REVOKE ALL ON FUNCTION budget_lock_counters FROM PUBLIC;
