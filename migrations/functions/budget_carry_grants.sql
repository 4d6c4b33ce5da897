-- Makes the grants of an approved reservation raise those caps alone that it counts on: the others end, so that no other call
-- uses them, and are there again once it returns to their counters. `parked` are those that ended so; returns those that do now.
CREATE OR REPLACE FUNCTION budget_carry_grants(reservation uuid, parked uuid[], counters uuid[], moment timestamptz)
RETURNS uuid[]
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
  WITH carried AS (
    UPDATE budget_grants g SET ended_at = CASE WHEN NOT c.applies THEN moment END
    FROM (
      SELECT o.tenant_id, o.id, EXISTS (
        SELECT FROM budget_counters k WHERE k.tenant_id = o.tenant_id AND k.id = ANY (counters)
          AND k.cap_id = o.cap_id AND (o.counter_key IS NULL OR k.counter_key = o.counter_key)) AS applies
      FROM budget_grants o
      WHERE o.reservation_id = reservation AND (o.ended_at IS NULL OR o.id = ANY (parked))) c
    WHERE g.tenant_id = c.tenant_id AND g.id = c.id
    RETURNING g.id, g.ended_at)
  SELECT coalesce(array_agg(c.id) FILTER (WHERE c.ended_at IS NOT NULL), '{}') FROM carried c
$$;

REVOKE ALL ON FUNCTION budget_carry_grants FROM PUBLIC;
