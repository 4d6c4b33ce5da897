-- Returns a locked reservation that a call of the gateway used at no cost to its caller, as it was before: with its time and
-- tokens, and on its counters. One that it left for those of the call, and that others have filled since, it counts on no more.
CREATE OR REPLACE FUNCTION budget_return(owner uuid, reservation uuid, moment timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  b budget_reservations;
  had uuid[]; had_tokens bigint; counters uuid[];
BEGIN
  SELECT * INTO b FROM budget_reservations r WHERE r.tenant_id = owner AND r.id = reservation;
  had := ARRAY(SELECT e.id::uuid FROM jsonb_array_elements_text(b.transferred->'counters') AS e(id));
  had_tokens := (b.transferred->>'tokens')::bigint;
  PERFORM budget_lock_counters(ARRAY[owner, all_tenants()], b.counter_ids || had, moment);
  IF b.decided_at IS NOT NULL THEN
    PERFORM budget_carry_grants(b.id,
      ARRAY(SELECT e.id::uuid FROM jsonb_array_elements_text(b.transferred->'parked') AS e(id)), had, moment);
  END IF;
  counters := ARRAY(
    SELECT o.id FROM unnest(had) WITH ORDINALITY AS e(id, place)
    JOIN budget_counters o ON o.id = e.id AND o.tenant_id IN (owner, all_tenants())
    LEFT JOIN budget_caps k ON k.tenant_id = o.tenant_id AND k.id = o.cap_id
    WHERE o.id = ANY (b.counter_ids) OR k.mode = 'soft' OR k.status <> 'active' OR k.deleted_at IS NOT NULL
      OR o.spent::numeric + o.reserved + budget_need_in(o.unit, b.amount, had_tokens)
        <= budget_limit(o.tenant_id, o.cap_id, o.counter_key, moment)
    ORDER BY e.place);
  UPDATE budget_counters o SET spent = o.spent, reserved = o.reserved
    + CASE WHEN o.id = ANY (counters) THEN budget_need_in(o.unit, b.amount, had_tokens) ELSE 0 END
    - CASE WHEN o.id = ANY (b.counter_ids) THEN budget_need_in(o.unit, b.amount, b.tokens) ELSE 0 END
  WHERE o.tenant_id IN (owner, all_tenants()) AND o.id = ANY (b.counter_ids || counters);
  UPDATE budget_reservations r SET origin = 'api', model = b.transferred->>'model', provider = b.transferred->>'provider',
    task_type = b.transferred->>'task_type', tokens = had_tokens, ttl_seconds = (b.transferred->>'ttl')::integer,
    expires_at = moment + make_interval(secs => (b.transferred->>'left')::float8), counter_ids = counters, transferred = NULL
  WHERE r.tenant_id = owner AND r.id = b.id;
END
$$;

REVOKE ALL ON FUNCTION budget_return FROM PUBLIC;
