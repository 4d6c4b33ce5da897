-- Extends the reservations of running gateway calls. Rows that another transaction has locked are skipped: they are
-- being closed, or are renewed the next time.
CREATE OR REPLACE FUNCTION budgets_renew(p json) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  renewed integer;
BEGIN
  WITH running AS MATERIALIZED (
    SELECT b.tenant_id, b.id FROM json_to_recordset(p->'calls') AS c(tenant uuid, id uuid)
    JOIN budget_reservations b ON b.tenant_id = c.tenant AND b.id = c.id
    WHERE b.state = 'open' AND b.origin = 'gateway'
    ORDER BY b.tenant_id, b.id FOR UPDATE OF b SKIP LOCKED)
  UPDATE budget_reservations b SET expires_at = budget_moment((p->>'now')::timestamptz) + make_interval(secs => (p->>'ttl')::integer)
  FROM running r WHERE b.tenant_id = r.tenant_id AND b.id = r.id;
  GET DIAGNOSTICS renewed = ROW_COUNT;
  RETURN json_build_object('renewed', renewed);
END
$$;

REVOKE ALL ON FUNCTION budgets_renew FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_renew TO application_manager;
