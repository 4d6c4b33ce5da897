-- Locks the counters of `needs` that plans do not hold for every request which they govern, in the order of their ids, and
-- makes those that do not exist yet; NULL where plans hold all. Rolling windows are brought up to `moment`.
CREATE OR REPLACE FUNCTION budget_lock_needs(moment timestamptz, needs budget_need[], verdicts budget_verdict[],
  has_plans boolean) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  wanted budget_need[] := needs; places integer[]; opened uuid[]; counters uuid[];
  -- Whether there may be rolling windows to bring up to `moment`.
  must_refresh boolean := true;
BEGIN
  IF has_plans THEN
    places := ARRAY(
      SELECT DISTINCT g.place FROM unnest(verdicts) v CROSS JOIN LATERAL unnest(v.governs) g
      WHERE g.held_until IS NULL ORDER BY g.place);
    wanted := ARRAY(SELECT needs[p] FROM unnest(places) WITH ORDINALITY AS x(p, n) ORDER BY n);
  ELSE
    -- Counters are looked up once and locked only if all exist: creating the missing ones may wait for a concurrent
    -- transaction, and must not do so while holding locks.
    WITH found AS MATERIALIZED (
      SELECT n.tenant_id, n.ordinality AS place, f.id
      FROM unnest(needs) WITH ORDINALITY n
      CROSS JOIN LATERAL (
        SELECT o.id, o.period_end FROM budget_counters o
        WHERE o.tenant_id = n.tenant_id AND o.cap_id = n.cap_id AND o.counter_key = n.counter_key
        ORDER BY o.period_start DESC LIMIT 1) f
      WHERE f.period_end > moment
    )
    SELECT array_agg(l.id ORDER BY l.place), bool_or(l.rolls) INTO opened, must_refresh FROM (
      SELECT b.id, f.place, b.ring IS NOT NULL AS rolls
      FROM found f JOIN budget_counters b ON b.tenant_id = f.tenant_id AND b.id = f.id
      WHERE (SELECT count(*) FROM found) = cardinality(needs)
      ORDER BY b.tenant_id, b.id FOR UPDATE OF b) l;
  END IF;
  IF cardinality(opened) IS DISTINCT FROM cardinality(wanted) THEN
    opened := budget_open_counters(wanted, moment);
    must_refresh := true;
  END IF;
  IF must_refresh THEN
    PERFORM budget_lock_counters(ARRAY(SELECT w.tenant_id FROM unnest(wanted) w), opened, moment);
  END IF;
  IF NOT has_plans THEN RETURN opened; END IF;
  counters := array_fill(NULL::uuid, ARRAY[cardinality(needs)]);
  FOR i IN 1..cardinality(places) LOOP counters[places[i]] := opened[i]; END LOOP;
  RETURN counters;
END
$$;

REVOKE ALL ON FUNCTION budget_lock_needs FROM PUBLIC;
