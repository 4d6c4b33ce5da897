-- Writes the audit entries that the service prepared for the requests at these places, in bulk and in the statement
-- that makes the changes. Only this statement knows the tenant.
CREATE OR REPLACE FUNCTION budget_audit(
  entries json, places integer[], tenants uuid[], moment timestamptz) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
  INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id, outcome,
    ip_address, user_agent, trace_id, changes, transaction_id)
  SELECT moment, e.action_type, e.entity_type, e.entity_id, e.user_id, e.actor_type, u.tenant,
    'success', e.ip_address, e.user_agent, e.trace_id, e.changes, pg_current_xact_id()
  FROM json_to_recordset(entries) AS e(place integer, action_type text, entity_type text, entity_id text,
    user_id text, actor_type text, ip_address text, user_agent text, trace_id text, changes jsonb)
  JOIN unnest(places, tenants) AS u(place, tenant) ON u.place = e.place
$$;

REVOKE ALL ON FUNCTION budget_audit FROM PUBLIC;
