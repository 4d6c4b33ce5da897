-- Transfers a prepared or approved reservation to a gateway call, the only one of `requests`, whose caps it counts on from then
-- on: counters that it already reserves on are kept, missing ones are reserved if they have enough left, and those that do not
-- apply to the call are released. `needs` are the counters of the caps that apply to the call. With `moves`, the call has it
-- already, and its next attempt is at another target; `charge` is the charge that the call is to make. Verdicts: open, stale
-- (the caps have changed), missing, foreign (another principal's or agent's), managed, held, unopened, other-plan, too-small,
-- denied (with the place of the first counter without enough left), and plan-suspended, plan-completed, plan-aborted or
-- plan-expired.
CREATE OR REPLACE FUNCTION budgets_adopt(moment timestamptz, tenants uuid[], revision bigint, needs budget_need[],
  requests budget_request[], charge uuid, moves boolean) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  q budget_request := requests[1];
  b budget_reservations;
  l budget_plans;
  verdict text;
  -- The counter of each of `needs` that the reservation is on already, and the places of those that are new to it.
  own uuid[]; missing integer[];
  opened uuid[] := '{}'; kept uuid[]; counters uuid[];
  all_tokens bigint; failing record; room text; parked uuid[] := '{}';
BEGIN
  moment := budget_moment(moment);
  IF NOT budget_is_current(tenants, revision) THEN RETURN json_build_object('verdict', 'stale'); END IF;
  SELECT * INTO b FROM budget_reservations r WHERE r.tenant_id = q.tenant_id AND r.id = q.id FOR UPDATE;
  verdict := CASE
    WHEN b.id IS NULL THEN 'missing'
    WHEN b.created_by <> q.created_by OR b.agent_id IS DISTINCT FROM q.agent_id THEN 'foreign'
    WHEN b.state = 'held' AND b.expires_at > moment THEN 'held'
    WHEN moves AND (b.origin <> 'gateway' OR b.transferred->>'charge' IS DISTINCT FROM charge::text) THEN 'managed'
    WHEN NOT moves AND b.origin <> 'api' THEN 'managed'
    WHEN b.state <> 'open' OR b.expires_at <= moment THEN 'unopened'
    WHEN b.plan_id IS DISTINCT FROM q.plan_id THEN 'other-plan'
    WHEN b.amount < q.amount THEN 'too-small'
  END;
  IF verdict IS NULL AND q.plan_id IS NOT NULL THEN
    PERFORM budget_lock_plans(ARRAY[q.tenant_id], ARRAY[q.plan_id]);
    SELECT * INTO l FROM budget_plans o WHERE o.tenant_id = q.tenant_id AND o.id = q.plan_id;
    verdict := nullif('plan-' || budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment), 'plan-active');
  END IF;
  IF verdict IS NOT NULL THEN
    RETURN json_build_object('verdict', verdict, 'origin', b.origin,
      'state', CASE WHEN b.state IN ('open', 'held') AND b.expires_at <= moment THEN 'expired' ELSE b.state END);
  END IF;

  own := ARRAY(
    SELECT (
      SELECT o.id FROM unnest(b.counter_ids) AS e(id)
      JOIN budget_counters o ON o.tenant_id = n.tenant_id AND o.id = e.id
      WHERE o.cap_id = n.cap_id AND o.counter_key = n.counter_key LIMIT 1)
    FROM unnest(needs) WITH ORDINALITY n ORDER BY n.ordinality);
  missing := ARRAY(
    SELECT n.ordinality::integer FROM unnest(needs) WITH ORDINALITY n
    WHERE own[n.ordinality] IS NULL AND n.cap_id <> ALL (coalesce(l.held_caps, '{}')) ORDER BY n.ordinality);
  IF cardinality(missing) > 0 THEN
    opened := budget_open_counters(
      ARRAY(SELECT needs[p] FROM unnest(missing) WITH ORDINALITY AS x(p, n) ORDER BY n), moment);
  END IF;
  PERFORM budget_lock_counters(
    ARRAY[q.tenant_id, all_tenants()], b.counter_ids || opened || coalesce(l.counter_ids || l.id, '{}'), moment);
  -- What the plan has reserved stays with the plan.
  kept := ARRAY(
    SELECT e.id FROM unnest(b.counter_ids) AS e(id)
    JOIN budget_counters o ON o.id = e.id AND o.tenant_id IN (q.tenant_id, all_tenants())
    WHERE e.id = ANY (own) OR o.cap_id = ANY (l.held_caps));
  all_tokens := greatest(coalesce((b.transferred->>'tokens')::bigint, b.tokens), q.tokens);
  IF b.decided_at IS NOT NULL THEN
    parked := ARRAY(SELECT e.id::uuid FROM jsonb_array_elements_text(b.transferred->'parked') AS e(id));
  END IF;

  SELECT n.ordinality AS place, o.spent, o.reserved, x.lim INTO failing
  FROM unnest(needs) WITH ORDINALITY n
  JOIN budget_counters o ON o.tenant_id = n.tenant_id
    AND o.id = coalesce(own[n.ordinality], opened[array_position(missing, n.ordinality::integer)])
  JOIN budget_caps k ON k.tenant_id = o.tenant_id AND k.id = o.cap_id
  CROSS JOIN LATERAL (
    SELECT budget_limit(o.tenant_id, o.cap_id, o.counter_key, moment)::numeric + coalesce((
        SELECT sum(g.amount) FROM budget_grants g
        WHERE g.tenant_id = o.tenant_id AND g.id = ANY (parked) AND g.cap_id = o.cap_id
          AND (g.counter_key IS NULL OR g.counter_key = o.counter_key)
          AND (g.expires_at IS NULL OR g.expires_at > moment)), 0) AS lim,
      CASE WHEN own[n.ordinality] IS NULL THEN budget_need_in(o.unit, b.amount, all_tokens)
        ELSE budget_need_in(o.unit, 0, all_tokens - b.tokens, 0) END AS need) x
  WHERE k.status = 'active' AND k.deleted_at IS NULL AND k.mode <> 'soft' AND x.need > 0
    AND o.spent::numeric + o.reserved + x.need > x.lim
  ORDER BY n.ordinality LIMIT 1;
  IF FOUND THEN
    RETURN json_build_object('verdict', 'denied', 'place', failing.place, 'limit', failing.lim::text,
      'spent', failing.spent::text, 'reserved', failing.reserved::text);
  END IF;

  counters := kept || opened;
  UPDATE budget_counters o SET spent = o.spent, reserved = o.reserved
    + CASE WHEN o.id = ANY (counters) THEN budget_need_in(o.unit, b.amount, all_tokens) ELSE 0 END
    - CASE WHEN o.id = ANY (b.counter_ids) THEN budget_need_in(o.unit, b.amount, b.tokens) ELSE 0 END
  WHERE o.tenant_id IN (q.tenant_id, all_tenants()) AND o.id = ANY (b.counter_ids || opened);
  IF b.decided_at IS NOT NULL THEN parked := budget_carry_grants(b.id, parked, counters, moment); END IF;
  UPDATE budget_reservations r SET origin = 'gateway', model = q.model, provider = q.provider, task_type = q.task_type,
    tokens = all_tokens, ttl_seconds = q.ttl_seconds, expires_at = moment + make_interval(secs => q.ttl_seconds),
    counter_ids = counters, transferred = coalesce(b.transferred, jsonb_build_object('charge', charge, 'tokens', b.tokens,
      'ttl', b.ttl_seconds, 'left', extract(epoch FROM b.expires_at - moment), 'model', b.model, 'provider', b.provider,
      'task_type', b.task_type, 'counters', b.counter_ids)) || jsonb_build_object('parked', parked)
  WHERE r.tenant_id = b.tenant_id AND r.id = b.id;
  IF budget_has_thresholds(counters, ARRAY[q.tenant_id, all_tenants()]) THEN
    PERFORM budget_note_alerts(moment, counters);
  END IF;
  -- A caller of a tenant learns nothing of what all tenants together have left.
  SELECT min(greatest(coalesce(n.budget, budget_limit(o.tenant_id, o.cap_id, o.counter_key, moment))::numeric
    - o.spent - o.reserved, 0))::text INTO room
  FROM unnest(counters) AS e(id)
  JOIN budget_counters o ON o.id = e.id AND o.tenant_id = q.tenant_id
  LEFT JOIN budget_caps k ON k.tenant_id = o.tenant_id AND k.id = o.cap_id
  LEFT JOIN budget_plans n ON n.tenant_id = o.tenant_id AND n.id = o.cap_id
  WHERE o.unit = 'usd' AND (n.id IS NOT NULL OR (
    k.status = 'active' AND k.deleted_at IS NULL AND k.mode <> 'soft' AND k.id <> ALL (coalesce(l.held_caps, '{}'))));
  RETURN json_build_object('verdict', 'open', 'amount', b.amount, 'tokens', all_tokens, 'room', room);
END
$$;

REVOKE ALL ON FUNCTION budgets_adopt FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_adopt TO application_manager;
