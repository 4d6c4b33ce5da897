-- Denies a held reservation. Verdicts: done, same (denied before), missing, gone (no longer held).
CREATE OR REPLACE FUNCTION budgets_deny(p json) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  moment timestamptz := budget_moment((p->>'now')::timestamptz);
  b budget_reservations;
BEGIN
  SELECT * INTO b FROM budget_reservations r
  WHERE r.id = (p->>'id')::uuid AND (p->>'tenant' IS NULL OR r.tenant_id = (p->>'tenant')::uuid) FOR UPDATE;
  IF NOT FOUND THEN RETURN json_build_object('verdict', 'missing'); END IF;
  IF b.state = 'denied' THEN
    RETURN json_build_object('verdict', 'same', 'reservation', to_json(b));
  END IF;
  IF b.state <> 'held' OR b.expires_at <= moment THEN
    RETURN json_build_object('verdict', 'gone', 'reservation', to_json(b));
  END IF;
  UPDATE budget_reservations r SET state = 'denied', decided_at = moment, decided_by = p->>'principal',
    decision_reason = p->>'reason', closed_at = moment
  WHERE r.tenant_id = b.tenant_id AND r.id = b.id RETURNING * INTO b;
  PERFORM budget_audit(p->'entries', '{1}', ARRAY[b.tenant_id], moment);
  RETURN json_build_object('verdict', 'done', 'reservation', to_json(b));
END
$$;

REVOKE ALL ON FUNCTION budgets_deny FROM PUBLIC;
