-- Extends an open reservation. Verdicts: done, missing, foreign, managed, unopened (no longer or not yet open).
CREATE OR REPLACE FUNCTION budgets_extend(p json) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  moment timestamptz := budget_moment((p->>'now')::timestamptz);
  b budget_reservations;
  verdict text := 'done';
BEGIN
  SELECT * INTO b FROM budget_reservations r
  WHERE r.id = (p->>'id')::uuid AND (p->>'tenant' IS NULL OR r.tenant_id = (p->>'tenant')::uuid) FOR UPDATE;
  IF NOT FOUND THEN RETURN json_build_object('verdict', 'missing'); END IF;
  IF b.created_by <> p->>'principal' AND NOT (p->>'unrestricted')::boolean THEN verdict := 'foreign';
  ELSIF b.origin <> p->>'origin' THEN verdict := 'managed';
  ELSIF b.state <> 'open' OR b.expires_at <= moment THEN verdict := 'unopened';
  ELSE
    UPDATE budget_reservations r SET expires_at = moment + make_interval(secs => (p->>'ttl')::integer)
    WHERE r.tenant_id = b.tenant_id AND r.id = b.id RETURNING * INTO b;
  END IF;
  RETURN json_build_object('verdict', verdict, 'reservation', to_json(b));
END
$$;

REVOKE ALL ON FUNCTION budgets_extend FROM PUBLIC;
