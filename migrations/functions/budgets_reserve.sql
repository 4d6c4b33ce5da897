-- Admits a batch of reservations, each a `budget_request`, in one statement. `needs` are the counters of all caps that
-- govern any of them, with what the batch needs of each and what its cap allows by the caller's copy of the caps. The
-- copies are of `tenants`, and `revision` is the sum of their revisions: as these only grow, an old copy makes it less.
-- `keys` and `entries` are null where no request has an idempotency key, and where none is an approval; `has_thresholds`
-- says whether one of the caps has alerts. `counters` are those of `needs`, where the caller knows them all from answers of
-- budget_reserve_decide and no request has a key, an approval or a plan.
--
-- Most batches are such, and only need available budget: it is taken, and given back where a counter has too little.
-- budget_reserve_decide decides all others, and takes twice as long. Most lone reservations need one counter, and a statement
-- of its own makes them a fifth cheaper. Returns `stale`, without any change, if the copies are
-- old, or if a known counter is no longer the current one.
CREATE OR REPLACE FUNCTION budgets_reserve(moment timestamptz, hold_seconds integer, has_thresholds boolean,
  tenants uuid[], revision bigint, needs budget_need[], requests budget_request[], keys json, entries json,
  counters uuid[]) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_material = off AS $$
DECLARE
  one budget_need; c record; taken integer := 0; has_room boolean := true; is_over boolean := false; headrooms text[] := '{}'; ends bigint[];
BEGIN
  moment := budget_moment(moment);
  IF counters IS NULL THEN
    RETURN budget_reserve_decide(moment, hold_seconds, tenants, revision, needs, requests, keys, entries, NULL);
  END IF;
  IF cardinality(needs) = 1 THEN
    one := needs[1];
    UPDATE budget_counters b SET reserved = b.reserved + one.need
    WHERE b.tenant_id = one.tenant_id AND b.id = counters[1] AND NOT EXISTS (
      SELECT FROM budget_grants g
      WHERE g.tenant_id = one.tenant_id AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment)
        AND g.cap_id = one.cap_id)
    RETURNING 1, b.spent + b.reserved <= one.most, b.period_end <= moment,
      ARRAY[(one.limit_amount - (b.spent + b.reserved - one.need))::text], ARRAY[budget_millis(b.period_end)]
    INTO taken, has_room, is_over, headrooms, ends;
  ELSIF needs IS NOT NULL THEN
    -- All counters are locked, whether they have enough or not, in the order of their ids. What grants add is in no copy, so
    -- counters of caps with grants are left to budget_reserve_decide.
    FOR c IN
      UPDATE budget_counters b SET reserved = b.reserved + f.need
      FROM (
        SELECT n.tenant_id, n.need, n.limit_amount, n.most, n.ordinality AS place, counters[n.ordinality] AS id
        FROM unnest(needs) WITH ORDINALITY n
        ORDER BY n.tenant_id, counters[n.ordinality]) f
      WHERE b.tenant_id = f.tenant_id AND b.id = f.id AND NOT EXISTS (
        SELECT FROM budget_grants g
        WHERE g.tenant_id = ANY (tenants) AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment)
          AND g.cap_id = ANY (SELECT n.cap_id FROM unnest(needs) n))
      RETURNING f.place, b.spent + b.reserved <= f.most AS has_room, b.period_end,
        f.limit_amount - (b.spent + b.reserved - f.need) AS headroom
    LOOP
      taken := taken + 1;
      has_room := has_room AND c.has_room;
      is_over := is_over OR c.period_end <= moment;
      headrooms[c.place] := c.headroom;
      ends[c.place] := budget_millis(c.period_end);
    END LOOP;
  END IF;
  IF needs IS NOT NULL THEN
    IF coalesce(taken, 0) = 0 THEN
      RETURN budget_reserve_decide(moment, hold_seconds, tenants, revision, needs, requests, keys, entries, NULL);
    END IF;
    is_over := is_over OR taken < cardinality(needs);
    IF is_over OR NOT has_room THEN PERFORM budget_return_needs(needs, counters); END IF;
    IF is_over THEN RETURN json_build_object('stale', true); END IF;
    IF NOT has_room THEN
      RETURN budget_reserve_decide(moment, hold_seconds, tenants, revision, needs, requests, keys, entries, counters);
    END IF;
  END IF;

  -- Caps may have changed while this waited for a lock, so the revisions are compared after the counters are locked.
  INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, application_id, api_key_id, user_id, model,
    provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata, counter_ids)
  SELECT q.tenant_id, q.id, 'open', q.origin, q.agent_id, q.application_id, q.api_key_id, q.user_id, q.model,
    q.provider, q.task_type, q.amount, q.tokens, q.ttl_seconds, moment + make_interval(secs => q.ttl_seconds), moment,
    q.created_by, q.metadata,
    CASE WHEN q.governing IS NULL THEN counters ELSE budget_pick(counters, q.governing) END
  FROM unnest(CASE WHEN revision = (
    SELECT coalesce(sum(k.caps_version), 0) FROM budget_books k WHERE k.tenant_id = ANY (tenants)) THEN requests END) q;
  IF NOT FOUND THEN
    PERFORM budget_return_needs(needs, counters);
    RETURN json_build_object('stale', true);
  END IF;
  IF has_thresholds THEN PERFORM budget_note_alerts(moment, counters); END IF;
  RETURN json_build_object('at', budget_millis(moment), 'headrooms', headrooms, 'ends', ends);
END
$$;

REVOKE ALL ON FUNCTION budgets_reserve FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_reserve TO application_manager;
