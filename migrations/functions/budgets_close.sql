-- Settles or releases a batch of reservations, each a `budget_closing`, in one statement. `keys` is null where no request has
-- an idempotency key; `unread`: the caller needs no rows. A request of kind `return`, alone in its batch, returns what a call
-- of the gateway took over and did not spend to its caller; its `charge_id` is that of the call. A request gets a verdict:
--   done, same (closed like this before), conflict (closed otherwise), missing, foreign (another principal's), managed
--   (of another origin), managed-by-plan, unopened (never admitted), replay (its key was used)
--
-- Each step is a function. What they pass on are the verdicts, a `budget_closing_verdict` for each request.
CREATE OR REPLACE FUNCTION budgets_close(moment timestamptz, unread boolean, requests budget_closing[], keys json)
RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET random_page_cost = 0.01 SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_material = off AS $$
DECLARE
  replayed integer[] := '{}'; verdicts budget_closing_verdict[]; closed json := '[]';
  plain record; decided record; written record; is_plain boolean; is_rolling boolean := false;
BEGIN
  moment := budget_moment(moment);

  -- 1. Claim keys, and lock the reservations. Most batches are plain settlements, of which nothing is left to decide.
  IF keys IS NOT NULL THEN replayed := budget_claim_keys(keys, moment); END IF;
  plain := budget_lock_plain(requests);
  is_plain := replayed = '{}' AND plain.changes IS NOT NULL;

  -- 2. Decide. Charges need the current buckets of rolling counters, so these are locked before what follows; others are
  -- locked last, so that their lock lasts only for the commit.
  IF is_plain THEN
    verdicts := array_fill(ROW('done', false, false)::budget_closing_verdict, ARRAY[cardinality(requests)]);
    is_rolling := plain.changes <> '{}' AND EXISTS (
      SELECT FROM budget_counters b
      WHERE b.tenant_id = ANY (plain.owners) AND b.id = ANY (plain.counters) AND b.ring IS NOT NULL);
    IF is_rolling THEN PERFORM budget_lock_counters(plain.owners, plain.counters, moment); END IF;
  ELSE
    decided := budget_decide_closings(moment, requests, replayed);
    verdicts := decided.verdicts;
    IF decided.movements <> '{}' THEN is_rolling := budget_move(moment, decided.movements); END IF;
  END IF;

  -- 3. Write reservations, charges and usage, then the counters that are not written yet.
  written := budget_write_closings(moment, requests, verdicts, is_rolling);
  IF is_plain AND plain.changes <> '{}' THEN
    PERFORM budget_charge_counters(moment, plain.owners, plain.counters, plain.changes, is_rolling);
  END IF;
  IF keys IS NOT NULL THEN
    PERFORM budget_free_keys(keys, ARRAY(
      SELECT v.ordinality::integer FROM unnest(verdicts) WITH ORDINALITY v
      WHERE v.verdict NOT IN ('done', 'same', 'replay')));
  END IF;
  IF EXISTS (SELECT FROM unnest(requests) q WHERE q.price_terms->>'hold' = 'over') THEN
    PERFORM gateway_break_bounds(moment, requests, verdicts);
  END IF;
  IF written.earliest IS NOT NULL THEN PERFORM usage_keep_bills(written.batch, written.earliest); END IF;

  -- 4. Answer.
  IF NOT unread THEN
    SELECT coalesce(json_agg(json_build_object('place', q.ordinality, 'reservation', to_json(b),
      'charge', CASE WHEN e.id IS NOT NULL THEN to_json(e) END)), '[]')
    INTO closed
    FROM unnest(requests) WITH ORDINALITY q JOIN budget_reservations b ON b.id = q.id
    LEFT JOIN budget_entries e ON e.tenant_id = b.tenant_id AND e.id = b.charge_id
    WHERE q.kind = 'settle' AND verdicts[q.ordinality].verdict IN ('done', 'same', 'replay');
  END IF;
  RETURN json_build_object('verdicts', ARRAY(SELECT v.verdict FROM unnest(verdicts) WITH ORDINALITY v ORDER BY v.ordinality),
    'closed', closed,
    'replays', CASE WHEN cardinality(replayed) = 0 THEN '[]'::json ELSE budget_replays(keys, replayed) END);
END
$$;

REVOKE ALL ON FUNCTION budgets_close FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_close TO application_manager;
