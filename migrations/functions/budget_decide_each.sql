-- Decides the requests of a batch that are not decided yet, one after the other: what one is given is missing for the next.
-- The counters are locked; what they become is in `states`, and nothing is written but grants of what an override lacks.
CREATE OR REPLACE FUNCTION budget_decide_each(moment timestamptz, requests budget_request[],
  INOUT states budget_counter_state[], INOUT verdicts budget_verdict[])
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  q budget_request; v budget_verdict; g budget_governing; s budget_counter_state; need bigint;
  -- The first of a request's counters that has too little left, and the first that no approval could raise.
  lacking integer; fixed integer;
  is_raising boolean; has_due boolean := false;
BEGIN
  FOR request IN 1..coalesce(cardinality(verdicts), 0) LOOP
    v := verdicts[request];
    CONTINUE WHEN v.verdict IS NOT NULL;
    -- Requests after one that waits for the sweep wait too, so that the order of arrival is kept.
    IF has_due THEN
      v.verdict := 'due';
      verdicts[request] := v;
      CONTINUE;
    END IF;

    q := requests[request];
    lacking := NULL;
    fixed := NULL;
    FOREACH g IN ARRAY v.governs LOOP
      CONTINUE WHEN g.held_until IS NOT NULL;
      s := states[g.place];
      need := budget_need_in(s.unit, q.amount, q.tokens);
      -- What costs nothing is not denied, however little is left.
      CONTINUE WHEN budget_has_room(s, need) OR need = 0 OR s.mode = 'soft';
      lacking := coalesce(lacking, g.place);
      IF s.mode = 'hard' OR s.tenant_id = all_tenants() AND q.confined OR NOT budget_can_count(s, need) THEN
        fixed := coalesce(fixed, g.place);
      END IF;
    END LOOP;

    is_raising := q.kind = 'override' AND lacking IS NOT NULL AND fixed IS NULL;
    IF lacking IS NULL OR is_raising THEN
      v.verdict := 'open';
    ELSE
      v.lacking := coalesce(fixed, lacking);
      s := states[v.lacking];
      -- Expired reservations must not cause a denial, so they are swept first, where that could be enough.
      IF budget_need_in(s.unit, q.amount, q.tokens) <= s.limit_amount - s.spent THEN
        s.has_due := coalesce(s.has_due, budget_has_due(moment, s.tenant_id));
        states[v.lacking] := s;
        has_due := s.has_due;
      END IF;
      v.shortage := s;
      v.verdict := CASE
        WHEN has_due THEN 'due'
        WHEN budget_is_approval(q.kind) THEN 'no-room'
        WHEN fixed IS NOT NULL THEN 'denied'
        WHEN q.kind = 'try' THEN 'no-room'
        ELSE 'held' END;
    END IF;

    FOREACH g IN ARRAY v.governs LOOP
      IF g.held_until IS NOT NULL THEN
        -- What is left of it is what the plan has left, whose own counter is the first.
        v.headrooms := v.headrooms || v.headrooms[1];
        v.ends := v.ends || budget_millis(g.held_until);
        CONTINUE;
      END IF;
      s := states[g.place];
      IF v.verdict <> 'open' THEN
        v.counter_ids := v.counter_ids || s.id;
      ELSE
        need := budget_need_in(s.unit, q.amount, q.tokens);
        -- A soft cap counts up to the largest bigint, and no further.
        IF s.mode <> 'soft' OR budget_can_count(s, need) THEN
          IF is_raising AND s.mode = 'approval' AND NOT budget_has_room(s, need) THEN
            INSERT INTO budget_grants (
              reservation_id, tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
            VALUES (q.id, s.tenant_id, s.cap_id, s.counter_key, s.spent + s.reserved + need - s.limit_amount,
              'approval of ' || q.id, to_timestamp(s.ends / 1000.0), moment, q.created_by);
            s.limit_amount := s.spent + s.reserved + need;
          END IF;
          s.reserved := s.reserved + need;
          s.added := s.added + need;
          states[g.place] := s;
          v.counter_ids := v.counter_ids || s.id;
        END IF;
      END IF;
      v.headrooms := v.headrooms || greatest(s.limit_amount - (s.spent + s.reserved), 0)::text;
      v.ends := v.ends || s.ends;
    END LOOP;
    verdicts[request] := v;
  END LOOP;
END
$$;

REVOKE ALL ON FUNCTION budget_decide_each FROM PUBLIC;
