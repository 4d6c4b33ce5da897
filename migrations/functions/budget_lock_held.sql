-- Locks the held reservations that a batch approves, so that each is approved once, and leaves those undecided that are still
-- held as their approver saw them. A plan's own reservation is never held.
CREATE OR REPLACE FUNCTION budget_lock_held(moment timestamptz, requests budget_request[], entries json,
  INOUT verdicts budget_verdict[])
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  approved uuid[] := '{}'; r record;
BEGIN
  FOR r IN
    SELECT q.ordinality AS place, b.id, b.state, b.expires_at, b.xmin::text AS version, (
        SELECT e.seen FROM json_to_recordset(entries) AS e(place integer, seen text) WHERE e.place = q.ordinality) AS seen
    FROM unnest(requests) WITH ORDINALITY q
    JOIN budget_reservations b ON b.tenant_id = q.tenant_id AND b.id = q.id
    WHERE budget_is_approval(q.kind) AND b.origin <> 'plan' ORDER BY b.tenant_id, b.id, q.ordinality FOR UPDATE OF b
  LOOP
    CONTINUE WHEN verdicts[r.place].verdict <> 'gone';
    IF r.version <> r.seen THEN
      verdicts[r.place].verdict := 'changed';
    ELSIF r.state = 'held' AND r.expires_at > moment AND NOT r.id = ANY (approved) THEN
      verdicts[r.place].verdict := NULL;
      approved := approved || r.id;
    END IF;
  END LOOP;
END
$$;

REVOKE ALL ON FUNCTION budget_lock_held FROM PUBLIC;
