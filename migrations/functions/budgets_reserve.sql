-- Admits a batch of reservations, each a `budget_request`, in one statement. `needs` are the counters of all caps that
-- govern any of them, with what the batch needs of each and what its cap allows by the caller's copy of the caps. The
-- copies are of `tenants`, and `revision` is the sum of their revisions: as these only grow, an old copy makes it less.
-- `keys` and `entries` are null where no request has an idempotency key, and where none is an approval; `has_thresholds`
-- says whether one of the caps has alerts.
--
-- `is_plain`: no key, no approval, no plan. Most batches are plain and only need available budget. If every counter has
-- enough, this function handles the batch alone; all other batches go to budget_reserve_decide. Returns `stale`,
-- without any change, if the copies are old.
CREATE OR REPLACE FUNCTION budgets_reserve(moment timestamptz, hold_seconds integer, is_plain boolean,
  has_thresholds boolean, tenants uuid[], revision bigint, needs budget_need[], requests budget_request[], keys json,
  entries json) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_material = off AS $$
DECLARE
  n budget_need;
  own_counters uuid[]; rooms text[]; ends bigint[]; has_room boolean;
BEGIN
  moment := budget_moment(moment);
  -- Each statement locks counters as it updates them, in the order of their ids. Grants and rolling windows have to be
  -- read under the lock, so counters with either are left to budget_reserve_decide.
  IF NOT is_plain THEN
    has_room := false;
  ELSIF needs IS NULL THEN
    has_room := true;
  ELSIF cardinality(needs) = 1 THEN
    n := needs[1];
    UPDATE budget_counters b SET reserved = b.reserved + n.need
    WHERE b.tenant_id = n.tenant_id AND b.ring IS NULL AND b.period_end > moment
      AND b.id = (
        SELECT c.id FROM budget_counters c
        WHERE c.tenant_id = n.tenant_id AND c.cap_id = n.cap_id AND c.counter_key = n.counter_key
        ORDER BY c.period_start DESC LIMIT 1)
      AND n.need <= CASE WHEN NOT EXISTS (
        SELECT FROM budget_grants g
        WHERE g.tenant_id = n.tenant_id AND g.cap_id = n.cap_id AND g.ended_at IS NULL
          AND (g.expires_at IS NULL OR g.expires_at > moment)
          AND (g.counter_key IS NULL OR g.counter_key = n.counter_key)) THEN n.most END - (b.spent + b.reserved)
    RETURNING ARRAY[b.id], ARRAY[(n.limit_amount - (b.spent + b.reserved - n.need))::text],
      ARRAY[budget_millis(b.period_end)]
    INTO own_counters, rooms, ends;
    has_room := FOUND;
  ELSE
    WITH moved AS (
      UPDATE budget_counters b SET reserved = b.reserved + f.need
      FROM (
        SELECT k.tenant_id, k.need, k.limit_amount, k.most, k.place, o.id, count(*) OVER () AS found
        FROM unnest(needs) WITH ORDINALITY
          AS k(tenant_id, cap_id, counter_key, need, limit_amount, most, place)
        CROSS JOIN LATERAL (
          SELECT c.id, c.period_end, c.spent + c.reserved AS used, c.ring IS NOT NULL AS rolls FROM budget_counters c
          WHERE c.tenant_id = k.tenant_id AND c.cap_id = k.cap_id AND c.counter_key = k.counter_key
          ORDER BY c.period_start DESC LIMIT 1) o
        WHERE o.period_end > moment AND NOT o.rolls AND k.need <= k.most - o.used AND NOT EXISTS (
          SELECT FROM budget_grants g
          WHERE g.tenant_id = k.tenant_id AND g.cap_id = k.cap_id AND g.ended_at IS NULL
            AND (g.expires_at IS NULL OR g.expires_at > moment)
            AND (g.counter_key IS NULL OR g.counter_key = k.counter_key))
        ORDER BY k.tenant_id, o.id) f
      -- All or none: a batch that cannot be admitted must not lock counters while it waits for another one.
      WHERE f.found = cardinality(needs) AND b.tenant_id = f.tenant_id AND b.id = f.id
      RETURNING b.id, b.period_end, f.place, f.need, f.limit_amount, f.most, b.spent + b.reserved - f.need AS used
    )
    SELECT array_agg(m.id ORDER BY m.place), array_agg((m.limit_amount - m.used)::text ORDER BY m.place),
      array_agg(budget_millis(m.period_end) ORDER BY m.place), bool_and(m.need <= m.most - m.used)
    INTO own_counters, rooms, ends, has_room FROM moved m;
    -- A concurrent transaction took the available budget between the read and the lock.
    IF NOT has_room THEN PERFORM budget_return_needs(needs, own_counters); END IF;
  END IF;
  IF has_room IS NOT TRUE THEN
    RETURN budget_reserve_decide(moment, hold_seconds, tenants, revision, needs, requests, keys, entries, own_counters);
  END IF;

  -- Caps may have changed while this waited for a lock, so the revisions are compared after the counters are locked.
  INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, application_id, api_key_id, user_id, model,
    provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata, counter_ids)
  SELECT q.tenant_id, q.id, 'open', q.origin, q.agent_id, q.application_id, q.api_key_id, q.user_id, q.model,
    q.provider, q.task_type, q.amount, q.tokens, q.ttl_seconds, moment + make_interval(secs => q.ttl_seconds), moment,
    q.created_by, q.metadata,
    CASE WHEN q.governing IS NULL THEN coalesce(own_counters, '{}') ELSE budget_pick(own_counters, q.governing) END
  FROM unnest(CASE WHEN revision = (
    SELECT coalesce(sum(k.caps_version), 0) FROM budget_books k WHERE k.tenant_id = ANY (tenants)) THEN requests END) q;
  IF NOT FOUND THEN
    PERFORM budget_return_needs(needs, own_counters);
    RETURN json_build_object('stale', true);
  END IF;
  IF has_thresholds THEN PERFORM budget_note_alerts(moment, own_counters); END IF;
  RETURN json_build_object('at', budget_millis(moment), 'rooms', coalesce(rooms, '{}'), 'ends', ends);
END
$$;

REVOKE ALL ON FUNCTION budgets_reserve FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_reserve TO application_manager;
