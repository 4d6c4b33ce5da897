-- Charges what was spent elsewhere, in full, and stores the events that report it, in one statement. Each charge is the late
-- one of a reservation that expired as it was made: no limit, approval or ended plan refuses it. Counters are charged as of now,
-- the ledger and usage as of when it happened, unless that is too long ago, in the future, or in a bill. `claims` are all events of
-- a publication with the digest under which each is taken once, first those of `requests` and `closings`, in their order;
-- `entries` are their audit entries. Returns the places of the events that are new, or `stale` without any change if the
-- caller's copies of the caps are old.
CREATE OR REPLACE FUNCTION budgets_record(moment timestamptz, tenants uuid[], revision bigint, needs budget_need[],
  requests budget_request[], closings budget_closing[], claims json, entries json) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_material = off AS $$
DECLARE
  fresh integer[]; fresh_tenants uuid[]; counters uuid[]; outcome json;
BEGIN
  moment := budget_moment(moment);
  IF NOT budget_is_current(tenants, revision) THEN RETURN json_build_object('stale', true); END IF;
  WITH given AS MATERIALIZED (
    SELECT * FROM json_to_recordset(claims) AS c(place integer, tenant_id uuid, digest text)
  ), taken AS (
    INSERT INTO received_events (tenant_id, digest, received_at)
    SELECT g.tenant_id, decode(g.digest, 'hex'), moment FROM given g ORDER BY g.digest
    ON CONFLICT DO NOTHING RETURNING digest
  )
  SELECT coalesce(array_agg(g.place ORDER BY g.place), '{}'), array_agg(g.tenant_id ORDER BY g.place)
  INTO fresh, fresh_tenants FROM given g JOIN taken t ON t.digest = decode(g.digest, 'hex');

  PERFORM budget_lock_plans(
    ARRAY(SELECT q.tenant_id FROM unnest(requests) q WHERE q.plan_id IS NOT NULL),
    ARRAY(SELECT q.plan_id FROM unnest(requests) q WHERE q.plan_id IS NOT NULL));
  IF needs IS NOT NULL THEN
    counters := budget_open_counters(needs, moment);
  END IF;
  -- A plan is charged on the counters that it holds, and on no other counter of their caps.
  INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, application_id, api_key_id, user_id,
    model, provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata, counter_ids)
  SELECT q.tenant_id, q.id, 'expired', q.origin, q.agent_id, q.plan_id, q.application_id, q.api_key_id, q.user_id,
    q.model, q.provider, q.task_type, q.amount, q.tokens, q.ttl_seconds, moment, moment, q.created_by, q.metadata,
    coalesce(l.counter_ids, '{}') || ARRAY(
      SELECT counters[c.place]
      FROM unnest(coalesce(q.governing, ARRAY(SELECT generate_series(1, cardinality(needs))))) AS c(place)
      WHERE l.id IS NULL OR needs[c.place].cap_id <> ALL (l.held_caps))
  FROM unnest(requests) WITH ORDINALITY q
  LEFT JOIN budget_plans l ON l.tenant_id = q.tenant_id AND l.id = q.plan_id
  WHERE q.ordinality = ANY (fresh);
  IF FOUND THEN
    outcome := budgets_close(moment, true, ARRAY(
      SELECT c FROM unnest(closings) c
      WHERE c.id IN (SELECT q.id FROM unnest(requests) WITH ORDINALITY q WHERE q.ordinality = ANY (fresh))), NULL);
    IF EXISTS (SELECT FROM json_array_elements_text(outcome->'verdicts') v WHERE v <> 'done') THEN
      RAISE EXCEPTION 'recorded usage was not charged: %', outcome->'verdicts';
    END IF;
  END IF;
  PERFORM budget_audit(entries, fresh, fresh_tenants, moment);
  RETURN json_build_object('fresh', fresh);
END
$$;

REVOKE ALL ON FUNCTION budgets_record FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_record TO application_manager;
