-- Locks counters, unless rolling ones among them had to be locked already, and writes what plain settlements change of them.
CREATE OR REPLACE FUNCTION budget_charge_counters(moment timestamptz, owners uuid[], counters uuid[],
  changes budget_counter_change[], is_locked boolean) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  has_thresholds boolean;
BEGIN
  IF NOT is_locked THEN PERFORM budget_lock_counters(owners, counters, moment); END IF;
  WITH charged AS (
    UPDATE budget_counters c SET reserved = c.reserved - budget_need_in(c.unit, d.freed_amount, d.freed_tokens, d.requests),
      spent = c.spent + budget_need_in(c.unit, d.charged_amount, d.charged_tokens, d.requests),
      use_level = budget_counter_level(
        c.spent + budget_need_in(c.unit, d.charged_amount, d.charged_tokens, d.requests), c.cap_limit),
      ring = CASE WHEN c.ring IS NULL THEN NULL ELSE c.ring[:cardinality(c.ring) - 1]
        || (c.ring[cardinality(c.ring)] + budget_need_in(c.unit, d.charged_amount, d.charged_tokens, d.requests)) END
    FROM unnest(changes) d
    WHERE c.tenant_id = ANY (owners) AND c.id = ANY (counters) AND c.id = d.counter
    RETURNING c.tenant_id, c.cap_id
  )
  SELECT coalesce(bool_or(k.alert_thresholds <> '[]'), false) INTO has_thresholds
  FROM charged x JOIN budget_caps k ON k.tenant_id = x.tenant_id AND k.id = x.cap_id;
  IF has_thresholds THEN PERFORM budget_note_alerts(moment, counters); END IF;
END
$$;

REVOKE ALL ON FUNCTION budget_charge_counters FROM PUBLIC;
