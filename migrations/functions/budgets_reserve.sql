-- Admits a batch of reservations, each a `budget_request`, in one statement. `needs` are the counters of all caps that
-- govern any of them, with what the batch needs of each and what its cap allows by the caller's copy of the caps. The
-- copies are of `tenants`, and `revision` is the sum of their revisions: as these only grow, an old copy makes it less.
-- `keys` and `entries` are null where no request has an idempotency key, and where none is an approval; `has_thresholds`
-- says whether one of the caps has alerts. `counters` are those of `needs`, where the caller knows them all from answers of
-- this function.
--
-- `is_plain`: no key, no approval, no plan. Most batches are plain and only need available budget. If every counter has
-- enough, this function handles the batch alone; all other batches go to budget_reserve_decide. Returns `stale`,
-- without any change, if the copies are old, or if a known counter is no longer the current one.
CREATE OR REPLACE FUNCTION budgets_reserve(moment timestamptz, hold_seconds integer, is_plain boolean,
  has_thresholds boolean, tenants uuid[], revision bigint, needs budget_need[], requests budget_request[], keys json,
  entries json, counters uuid[] DEFAULT NULL) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_material = off AS $$
DECLARE
  n budget_need;
  own_counters uuid[]; rooms text[]; ends bigint[]; has_room boolean; is_over boolean := false;
BEGIN
  moment := budget_moment(moment);
  -- Each statement locks counters as it updates them, in the order of their ids. Rolling windows have to be read under the
  -- lock and what grants add is in no copy, so counters with either are left to budget_reserve_decide.
  IF NOT is_plain THEN
    has_room := false;
  ELSIF needs IS NULL THEN
    has_room := true;
  ELSIF cardinality(counters) = 1 THEN
    n := needs[1];
    UPDATE budget_counters b SET reserved = b.reserved + n.need
    WHERE b.tenant_id = n.tenant_id AND b.id = counters[1] AND NOT EXISTS (
      SELECT FROM budget_grants g
      WHERE g.tenant_id = n.tenant_id AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment)
        AND g.cap_id = n.cap_id)
    RETURNING counters, ARRAY[(n.limit_amount - (b.spent + b.reserved - n.need))::text],
      ARRAY[budget_millis(b.period_end)], b.spent + b.reserved <= n.most, b.period_end <= moment
    INTO own_counters, rooms, ends, has_room, is_over;
  ELSIF counters IS NOT NULL THEN
    -- All are locked, whether they have enough or not, so that the lock order holds when budget_reserve_decide goes on.
    WITH moved AS (
      UPDATE budget_counters b SET reserved = b.reserved + f.need
      FROM (
        SELECT k.tenant_id, k.id, k.need, k.limit_amount, k.most, k.place
        FROM unnest(counters, needs) WITH ORDINALITY
          AS k(id, tenant_id, cap_id, counter_key, need, limit_amount, most, place)
        ORDER BY k.tenant_id, k.id) f
      WHERE b.tenant_id = f.tenant_id AND b.id = f.id AND NOT EXISTS (
        SELECT FROM budget_grants g
        WHERE g.tenant_id = ANY (tenants) AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment)
          AND g.cap_id = ANY (SELECT k.cap_id FROM unnest(needs) k))
      RETURNING f.place, f.limit_amount, f.need, b.spent + b.reserved AS used, b.period_end,
        f.most - (b.spent + b.reserved) AS rest
    )
    SELECT array_agg((m.limit_amount - m.used + m.need)::text ORDER BY m.place),
      array_agg(budget_millis(m.period_end) ORDER BY m.place), min(m.rest) >= 0,
      min(m.period_end) <= moment OR count(*) < cardinality(needs)
    INTO rooms, ends, has_room, is_over FROM moved m;
    IF rooms IS NOT NULL THEN own_counters := counters; END IF;
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
        WHERE o.period_end > moment AND NOT o.rolls AND k.need <= k.most - o.used
        ORDER BY k.tenant_id, o.id) f
      -- All or none: a batch that cannot be admitted must not lock counters while it waits for another one.
      WHERE f.found = cardinality(needs) AND b.tenant_id = f.tenant_id AND b.id = f.id AND NOT EXISTS (
        SELECT FROM budget_grants g
        WHERE g.tenant_id = ANY (tenants) AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment)
          AND g.cap_id = ANY (SELECT k.cap_id FROM unnest(needs) k))
      RETURNING b.id, b.period_end, f.place, f.need, f.limit_amount, f.most, b.spent + b.reserved - f.need AS used
    )
    SELECT array_agg(m.id ORDER BY m.place), array_agg((m.limit_amount - m.used)::text ORDER BY m.place),
      array_agg(budget_millis(m.period_end) ORDER BY m.place), bool_and(m.need <= m.most - m.used)
    INTO own_counters, rooms, ends, has_room FROM moved m;
  END IF;
  -- There is not enough, or a concurrent transaction took it between the read and the lock.
  IF own_counters IS NOT NULL AND (is_over OR NOT has_room) THEN PERFORM budget_return_needs(needs, own_counters); END IF;
  IF is_over THEN RETURN json_build_object('stale', true); END IF;
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
  RETURN json_build_object('at', budget_millis(moment), 'rooms', coalesce(rooms, '{}'), 'ends', ends,
    'counters', CASE WHEN counters IS NULL THEN own_counters END);
END
$$;

REVOKE ALL ON FUNCTION budgets_reserve FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_reserve TO application_manager;
