-- Makes a change of the ledger once for each idempotency key, which is claimed in the same statement. A refused change frees
-- its key. A repetition gets the first outcome again, as `replay`, with the fingerprint of the first request. The verdict is
-- `changed`, and nothing is, where `seen` is not the version of the row that is changed.
CREATE OR REPLACE FUNCTION budgets_once(change text, p json) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  moment timestamptz := budget_moment((p->>'now')::timestamptz);
  keys json := CASE WHEN p->>'key' IS NOT NULL THEN json_build_array(p::jsonb || '{"place": 1}') END;
  outcome json;
BEGIN
  -- A change that is made again to wait for others has its key already.
  IF keys IS NOT NULL AND (p->>'waiting')::boolean IS NOT TRUE AND budget_claim_keys(keys, moment) <> '{}' THEN
    SELECT i.body::jsonb || jsonb_build_object('verdict', 'replay', 'sha256', encode(i.request_sha256, 'hex')) INTO outcome
    FROM idempotency_keys i
    WHERE i.principal = p->>'principal' AND i.route = p->>'route' AND i.key = p->>'key';
    RETURN outcome;
  END IF;
  IF p->>'seen' IS NOT NULL AND NOT budget_is_as_seen(change, p) THEN
    IF keys IS NOT NULL THEN PERFORM budget_free_keys(keys, '{1}'); END IF;
    RETURN json_build_object('verdict', 'changed');
  END IF;
  outcome := CASE change
    WHEN 'deny' THEN budgets_deny(p)
    WHEN 'extend' THEN budgets_extend(p)
    WHEN 'plan' THEN budgets_plan(p)
    WHEN 'refund' THEN budgets_refund(p)
    WHEN 'release' THEN json_build_object('verdict',
      budgets_close(moment, true, ARRAY[json_populate_record(NULL::budget_closing, p)], NULL)->'verdicts'->>0)
  END;
  IF keys IS NULL THEN
    RETURN outcome;
  ELSIF outcome->>'verdict' IN ('done', 'same') THEN
    UPDATE idempotency_keys i SET body = outcome::text
    WHERE i.principal = p->>'principal' AND i.route = p->>'route' AND i.key = p->>'key';
  ELSE
    PERFORM budget_free_keys(keys, '{1}');
  END IF;
  RETURN outcome;
END
$$;

REVOKE ALL ON FUNCTION budgets_once FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_once TO application_manager;
