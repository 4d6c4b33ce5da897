-- Decides the reservations of a batch in order: which are admitted, held for approval or denied, and which caps an
-- approval raises. `counters` are those of `needs` if budgets_reserve has locked them already. Verdicts:
--   open, held (an approval cap has too little left), denied (a hard cap has), no-room (an approval that may raise no
--   cap, or a request of kind `try`, which is not held), replay (its key was used), due (it would fit once expired
--   reservations are swept), gone (no longer held), changed (not the version that its entry has seen), plan-missing,
--   plan-suspended, plan-completed, plan-aborted, plan-expired
--
-- Each step is a function. What they pass on are the verdicts, a `budget_verdict` for each request, and the counters, a
-- `budget_counter_state` for each of `needs`.
CREATE OR REPLACE FUNCTION budget_reserve_decide(moment timestamptz, hold_seconds integer, tenants uuid[], revision bigint,
  needs budget_need[], requests budget_request[], keys json, entries json, counters uuid[]) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  has_plans boolean := EXISTS (SELECT FROM unnest(requests) q WHERE q.plan_id IS NOT NULL);
  replayed integer[] := '{}'; refused integer[]; approved json := '[]';
  verdicts budget_verdict[]; states budget_counter_state[];
BEGIN
  -- 1. Compare the revision of the caps. Their limits are read again below, once the counters are locked; a cap that is
  -- created meanwhile binds the requests after it.
  IF NOT budget_is_current(tenants, revision) THEN RETURN json_build_object('stale', true); END IF;

  -- 2. Claim keys, and pair requests with counters; then lock held reservations, then plans.
  IF keys IS NOT NULL THEN replayed := budget_claim_keys(keys, moment); END IF;
  verdicts := budget_pair_requests(needs, requests, replayed);
  IF entries IS NOT NULL THEN verdicts := budget_lock_held(moment, requests, entries, verdicts); END IF;
  IF has_plans THEN verdicts := budget_draw_on_plans(moment, needs, requests, verdicts); END IF;

  -- 3. Lock the counters that plans do not hold, and read what their caps allow.
  IF needs IS NOT NULL THEN
    counters := coalesce(counters, budget_lock_needs(moment, needs, verdicts, has_plans));
    states := budget_counter_states(moment, needs, counters, has_plans);
  END IF;

  -- 4. Decide request by request.
  SELECT d.states, d.verdicts INTO states, verdicts FROM budget_decide_each(moment, requests, states, verdicts) d;

  -- 5. Write counters, reservations, keys and the audit log.
  IF needs IS NOT NULL THEN PERFORM budget_write_counters(moment, states, verdicts); END IF;
  PERFORM budget_write_reservations(moment, hold_seconds, requests, verdicts);
  IF entries IS NOT NULL THEN approved := budget_write_approvals(moment, requests, verdicts); END IF;
  IF keys IS NOT NULL THEN
    refused := ARRAY(
      SELECT v.ordinality::integer FROM unnest(verdicts) WITH ORDINALITY v
      WHERE v.verdict NOT IN ('open', 'held', 'replay'));
    IF cardinality(refused) > 0 THEN PERFORM budget_free_keys(keys, refused); END IF;
  END IF;
  IF keys IS NOT NULL AND entries IS NOT NULL THEN
    -- An approved reservation goes on to change, so its key keeps the answer.
    UPDATE idempotency_keys i SET body = a.reservation::text
    FROM json_to_recordset(approved) AS a(place integer, reservation json)
    JOIN json_to_recordset(keys) AS k(place integer, principal text, route text, key text) ON k.place = a.place
    WHERE verdicts[a.place].verdict = 'open' AND i.principal = k.principal AND i.route = k.route AND i.key = k.key;
  END IF;
  IF entries IS NOT NULL THEN
    PERFORM budget_audit(entries, array_agg(q.ordinality::integer), array_agg(q.tenant_id), moment)
    FROM unnest(requests) WITH ORDINALITY q WHERE verdicts[q.ordinality].verdict = 'open';
  END IF;

  -- 6. Answer. What JavaScript's numbers do not hold is text.
  RETURN json_build_object('at', budget_millis(moment), 'approved', approved,
    'counters', CASE WHEN keys IS NULL AND entries IS NULL AND NOT has_plans THEN counters END,
    'replays', CASE WHEN cardinality(replayed) = 0 THEN '[]'::json ELSE budget_replays(keys, replayed) END,
    'decisions', ARRAY(
      SELECT json_build_object('verdict', v.verdict, 'headrooms', v.headrooms, 'ends', v.ends,
        'shortage', CASE WHEN v.lacking IS NOT NULL THEN json_build_object(
          'place', v.lacking, 'limit', (v.shortage).limit_amount::text,
          'spent', (v.shortage).spent::text, 'reserved', (v.shortage).reserved::text) END)
      FROM unnest(verdicts) WITH ORDINALITY v ORDER BY v.ordinality));
END
$$;

REVOKE ALL ON FUNCTION budget_reserve_decide FROM PUBLIC;
