-- Updates the counters of reservations that are closed or expire: releases the reserved amount, charges the actual
-- cost, and adjusts what their plans reserve to what is left. Returns whether any of the counters is rolling.
CREATE OR REPLACE FUNCTION budget_move(moment timestamptz, movements budget_movement[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  owners uuid[] := all_tenants() || ARRAY(SELECT DISTINCT r.tenant_id FROM unnest(movements) r);
  counters uuid[];
  has_plans boolean; is_approved boolean; is_rolling boolean;
  plan_tenants uuid[]; plan_ids uuid[]; rests bigint[];
BEGIN
  SELECT array_agg(DISTINCT c), bool_or(b.plan_id IS NOT NULL), bool_or(b.decided_at IS NOT NULL)
  INTO counters, has_plans, is_approved
  FROM unnest(movements) r
  JOIN budget_reservations b ON b.tenant_id = r.tenant_id AND b.id = r.id, unnest(b.counter_ids) c;
  IF counters IS NULL THEN RETURN false; END IF;
  IF has_plans THEN
    SELECT array_agg(p.tenant), array_agg(p.id) INTO plan_tenants, plan_ids
    FROM (
      SELECT DISTINCT b.tenant_id AS tenant, b.plan_id AS id FROM unnest(movements) r
      JOIN budget_reservations b ON b.tenant_id = r.tenant_id AND b.id = r.id WHERE b.plan_id IS NOT NULL) p;
    PERFORM budget_lock_plans(plan_tenants, plan_ids);
    counters := counters || ARRAY(
      SELECT DISTINCT c FROM unnest(plan_tenants, plan_ids) AS p(tenant, id)
      JOIN budget_plans l ON l.tenant_id = p.tenant AND l.id = p.id, unnest(l.counter_ids) c);
  END IF;
  is_rolling := budget_lock_counters(owners, counters, moment);
  IF has_plans THEN rests := budget_plan_rests(plan_tenants, plan_ids); END IF;
  UPDATE budget_counters c SET reserved = c.reserved - d.freed, spent = c.spent + d.charged,
    use_level = budget_counter_level(c.spent + d.charged, c.cap_limit),
    ring = CASE WHEN c.ring IS NULL THEN NULL
      ELSE c.ring[:cardinality(c.ring) - 1] || (c.ring[cardinality(c.ring)] + d.charged) END
  FROM (
    SELECT o.tenant_id, o.id,
      coalesce(sum(budget_need_in(o.unit, b.amount, b.tokens)) FILTER (WHERE r.holds), 0)::bigint AS freed,
      sum(budget_need_in(o.unit, r.amount, r.tokens, (r.charge_id IS NOT NULL)::integer))::bigint AS charged
    FROM unnest(movements) r
    JOIN budget_reservations b ON b.tenant_id = r.tenant_id AND b.id = r.id
    CROSS JOIN LATERAL unnest(b.counter_ids) AS e(counter)
    JOIN budget_counters o ON o.id = e.counter AND o.tenant_id IN (r.tenant_id, all_tenants())
    GROUP BY o.tenant_id, o.id
  ) d
  WHERE c.tenant_id = d.tenant_id AND c.id = d.id AND (d.freed <> 0 OR d.charged <> 0);
  IF has_plans THEN
    UPDATE budget_plans l SET budget = greatest(l.budget - d.lost, 0)
    FROM (
      SELECT o.tenant_id, o.id, sum(greatest(b.amount - r.amount, 0))::bigint AS lost
      FROM unnest(movements) r
      JOIN budget_reservations b ON b.tenant_id = r.tenant_id AND b.id = r.id
      JOIN budget_plans o ON o.tenant_id = b.tenant_id AND o.id = b.plan_id
      WHERE r.holds AND NOT b.counter_ids @> o.counter_ids
      GROUP BY o.tenant_id, o.id
    ) d
    WHERE l.tenant_id = d.tenant_id AND l.id = d.id AND d.lost > 0;
    PERFORM budget_plan_hold(plan_tenants, plan_ids, rests);
  END IF;
  IF is_approved THEN
    WITH used AS (
      SELECT g.tenant_id, g.id, g.amount - greatest(
        budget_need_in(o.unit, b.amount - r.amount, b.tokens - r.tokens, (r.charge_id IS NULL)::integer), 0) AS rest
      FROM unnest(movements) r
      JOIN budget_grants g ON g.reservation_id = r.id
      JOIN budget_reservations b ON b.tenant_id = r.tenant_id AND b.id = r.id
      CROSS JOIN LATERAL unnest(b.counter_ids) AS e(counter)
      JOIN budget_counters o ON o.tenant_id = g.tenant_id AND o.id = e.counter
        AND o.cap_id = g.cap_id AND o.counter_key = g.counter_key
      WHERE r.holds AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment)
    ), ended AS (
      UPDATE budget_grants g SET ended_at = moment FROM used u
      WHERE g.tenant_id = u.tenant_id AND g.id = u.id AND u.rest < g.amount
      RETURNING g.*, u.rest
    )
    INSERT INTO budget_grants (
      reservation_id, tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
    SELECT reservation_id, tenant_id, cap_id, counter_key, rest, reason, expires_at, moment, created_by
    FROM ended WHERE rest > 0;
  END IF;
  IF budget_has_thresholds(counters, owners) THEN PERFORM budget_note_alerts(moment, counters); END IF;
  RETURN is_rolling;
END
$$;

REVOKE ALL ON FUNCTION budget_move FROM PUBLIC;
