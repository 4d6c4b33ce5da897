-- Transfers a prepared or approved reservation to a gateway call, whose caps it counts on from then on: counters that
-- it already reserves on are kept, missing ones are reserved if they have enough left, and those that do not apply to
-- the call are released. 'counters' are those of the caps that apply to the call. With 'moves', the call has it already, and
-- its next attempt is at another target; 'charge' is the charge that the call is to make. Verdicts: open, stale (the caps have
-- changed), missing, foreign (another principal's or agent's), managed, held, unopened, other-plan, too-small, denied
-- (with the first counter without enough left), and plan-suspended, plan-completed, plan-aborted or plan-expired.
CREATE OR REPLACE FUNCTION budgets_adopt(p json) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  moment timestamptz := budget_moment((p->>'now')::timestamptz);
  owner uuid := p->>'tenant';
  plan uuid := p->>'plan';
  b budget_reservations;
  l budget_plans;
  verdict text;
  places integer[]; tenants uuid[]; caps uuid[]; keys text[]; own uuid[];
  lacking integer[]; opened uuid[]; counters uuid[] := '{}'; kept uuid[];
  all_tokens bigint; failing record; room text;
  moves boolean := coalesce((p->>'moves')::boolean, false); parked uuid[] := '{}';
BEGIN
  IF EXISTS (
    SELECT FROM json_to_recordset(p->'books') AS k(tenant uuid, version bigint)
    LEFT JOIN budget_books o ON o.tenant_id = k.tenant WHERE coalesce(o.caps_version, 0) <> k.version
  ) THEN RETURN json_build_object('verdict', 'stale'); END IF;
  SELECT * INTO b FROM budget_reservations r WHERE r.tenant_id = owner AND r.id = (p->>'id')::uuid FOR UPDATE;
  verdict := CASE
    WHEN b.id IS NULL THEN 'missing'
    WHEN b.created_by <> p->>'principal' OR b.agent_id IS DISTINCT FROM (p->>'agent')::uuid THEN 'foreign'
    WHEN b.state = 'held' AND b.expires_at > moment THEN 'held'
    WHEN moves AND (b.origin <> 'gateway' OR b.transferred->>'charge' IS DISTINCT FROM p->>'charge') THEN 'managed'
    WHEN NOT moves AND b.origin <> 'api' THEN 'managed'
    WHEN b.state <> 'open' OR b.expires_at <= moment THEN 'unopened'
    WHEN b.plan_id IS DISTINCT FROM plan THEN 'other-plan'
    WHEN b.amount < (p->>'amount')::bigint THEN 'too-small'
  END;
  IF verdict IS NULL AND plan IS NOT NULL THEN
    PERFORM budget_lock_plans(ARRAY[owner], ARRAY[plan]);
    SELECT * INTO l FROM budget_plans o WHERE o.tenant_id = owner AND o.id = plan;
    verdict := nullif('plan-' || budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment), 'plan-active');
  END IF;
  IF verdict IS NOT NULL THEN
    RETURN json_build_object('verdict', verdict, 'origin', b.origin,
      'state', CASE WHEN b.state IN ('open', 'held') AND b.expires_at <= moment THEN 'expired' ELSE b.state END);
  END IF;

  -- Each counter of a governing cap that the reservation has already, and those caps that it has none of.
  SELECT array_agg(c.place ORDER BY c.place), array_agg(c.tenant ORDER BY c.place),
    array_agg(c.cap ORDER BY c.place), array_agg(c.key ORDER BY c.place), array_agg((
      SELECT o.id FROM unnest(b.counter_ids) AS e(id)
      JOIN budget_counters o ON o.tenant_id = c.tenant AND o.id = e.id
      WHERE o.cap_id = c.cap AND o.counter_key = c.key LIMIT 1) ORDER BY c.place)
  INTO places, tenants, caps, keys, own
  FROM json_to_recordset(p->'counters') AS c(place integer, tenant uuid, cap uuid, key text);
  lacking := ARRAY(
    SELECT c.place FROM unnest(places, caps, keys, own) AS c(place, cap, key, own)
    WHERE c.own IS NULL AND NOT EXISTS (
      SELECT FROM unnest(l.held_caps) AS h(cap) WHERE h.cap = c.cap)
    ORDER BY c.place);
  IF cardinality(lacking) > 0 THEN
    opened := budget_open_counters(
      ARRAY(
        SELECT ROW(tenants[i], caps[i], keys[i], NULL, NULL, NULL)::budget_need
        FROM unnest(lacking) WITH ORDINALITY AS x(i, n) ORDER BY n),
      moment);
  END IF;
  opened := coalesce(opened, '{}');
  PERFORM budget_lock_counters(ARRAY[owner, '00000000-0000-0000-0000-000000000000'],
    b.counter_ids || opened || coalesce(l.counter_ids || l.id, '{}'), moment);
  -- What the plan has reserved stays with the plan.
  kept := ARRAY(
    SELECT e.id FROM unnest(b.counter_ids) AS e(id)
    JOIN budget_counters o ON o.id = e.id AND o.tenant_id IN (owner, '00000000-0000-0000-0000-000000000000')
    WHERE e.id = ANY (own) OR (plan IS NOT NULL AND (e.id = plan OR o.cap_id = ANY (l.held_caps))));
  all_tokens := greatest(coalesce((b.transferred->>'tokens')::bigint, b.tokens), (p->>'tokens')::bigint);
  IF b.decided_at IS NOT NULL THEN
    parked := ARRAY(SELECT e.id::uuid FROM jsonb_array_elements_text(b.transferred->'parked') AS e(id));
  END IF;

  SELECT o.cap_id, o.counter_key, o.spent, o.reserved, x.lim INTO failing
  FROM unnest(places, tenants, caps, own) AS c(place, tenant, cap, own)
  JOIN budget_counters o ON o.tenant_id = c.tenant
    AND o.id = coalesce(c.own, opened[array_position(lacking, c.place)])
  JOIN budget_caps k ON k.tenant_id = o.tenant_id AND k.id = o.cap_id
  CROSS JOIN LATERAL (
    SELECT budget_limit(o.tenant_id, o.cap_id, o.counter_key, moment)::numeric + coalesce((
        SELECT sum(g.amount) FROM budget_grants g
        WHERE g.tenant_id = o.tenant_id AND g.id = ANY (parked) AND g.cap_id = o.cap_id
          AND (g.counter_key IS NULL OR g.counter_key = o.counter_key)
          AND (g.expires_at IS NULL OR g.expires_at > moment)), 0) AS lim,
      CASE WHEN c.own IS NOT NULL THEN CASE o.unit WHEN 'tokens' THEN all_tokens - b.tokens ELSE 0 END
        ELSE CASE o.unit WHEN 'usd' THEN b.amount WHEN 'tokens' THEN all_tokens ELSE 1 END END AS need) x
  WHERE k.status = 'active' AND k.deleted_at IS NULL AND k.mode <> 'soft' AND x.need > 0
    AND o.spent::numeric + o.reserved + x.need > x.lim
  ORDER BY c.place LIMIT 1;
  IF FOUND THEN
    RETURN json_build_object('verdict', 'denied', 'cap', failing.cap_id, 'key', failing.counter_key,
      'limit', failing.lim::text, 'spent', failing.spent::text, 'reserved', failing.reserved::text);
  END IF;

  UPDATE budget_counters o SET spent = o.spent, reserved = o.reserved
    + CASE WHEN o.id = ANY (opened) OR o.id = ANY (kept) THEN
        CASE o.unit WHEN 'usd' THEN b.amount WHEN 'tokens' THEN all_tokens ELSE 1 END ELSE 0 END
    - CASE WHEN o.id = ANY (b.counter_ids) THEN
        CASE o.unit WHEN 'usd' THEN b.amount WHEN 'tokens' THEN b.tokens ELSE 1 END ELSE 0 END
  WHERE o.tenant_id IN (owner, '00000000-0000-0000-0000-000000000000') AND o.id = ANY (b.counter_ids || opened);
  counters := kept || opened;
  IF b.decided_at IS NOT NULL THEN parked := budget_carry_grants(b.id, parked, counters, moment); END IF;
  UPDATE budget_reservations r SET origin = 'gateway', model = p->>'model', provider = p->>'provider',
    task_type = p->>'task_type', tokens = all_tokens, ttl_seconds = (p->>'ttl')::integer,
    expires_at = moment + make_interval(secs => (p->>'ttl')::integer), counter_ids = counters,
    transferred = coalesce(b.transferred, jsonb_build_object('charge', p->>'charge', 'tokens', b.tokens,
      'ttl', b.ttl_seconds, 'left', extract(epoch FROM b.expires_at - moment), 'model', b.model, 'provider', b.provider,
      'task_type', b.task_type, 'counters', b.counter_ids)) || jsonb_build_object('parked', parked)
  WHERE r.tenant_id = owner AND r.id = b.id;
  IF budget_has_thresholds(counters, ARRAY[owner, '00000000-0000-0000-0000-000000000000']) THEN
    PERFORM budget_note_alerts(moment, counters);
  END IF;
  SELECT min(greatest(coalesce(n.budget, budget_limit(o.tenant_id, o.cap_id, o.counter_key, moment))::numeric
    - o.spent - o.reserved, 0))::text INTO room
  FROM unnest(counters) AS e(id)
  JOIN budget_counters o ON o.id = e.id AND o.tenant_id IN (owner, '00000000-0000-0000-0000-000000000000')
  LEFT JOIN budget_caps k ON k.tenant_id = o.tenant_id AND k.id = o.cap_id
  LEFT JOIN budget_plans n ON n.tenant_id = o.tenant_id AND n.id = o.cap_id
  WHERE o.unit = 'usd' AND (n.id IS NOT NULL
    OR (k.status = 'active' AND k.deleted_at IS NULL AND k.mode <> 'soft' AND plan IS NULL)
    OR (k.status = 'active' AND k.deleted_at IS NULL AND k.mode <> 'soft' AND NOT k.id = ANY (l.held_caps)));
  RETURN json_build_object('verdict', 'open', 'amount', b.amount, 'tokens', all_tokens, 'room', room);
END
$$;

REVOKE ALL ON FUNCTION budgets_adopt FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_adopt TO application_manager;
