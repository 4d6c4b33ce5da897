-- Writes rows of usage for responses that came from the gateway's cache: they cost nothing, and have what they saved.
CREATE OR REPLACE FUNCTION usage_cached(savings json) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  written_by bigint := nextval('usage_batches');
BEGIN
  WITH written AS (
    INSERT INTO usage_rows (tenant_id, agent_id, plan_id, api_key_id, occurred_at, batch, cost, saved, application_id,
      method, created_by, user_id, task_type, model, provider, synthetic)
    SELECT s.tenant_id, s.agent_id, s.plan_id, s.api_key_id, now(), written_by, 0, s.saved, s.application_id, 'cached',
      'system', s.user_id, s.task_type, s.model, s.provider, is_synthetic(s.api_key_id, s.agent_id)
    FROM json_to_recordset(savings) AS s(tenant_id uuid, agent_id uuid, plan_id uuid, api_key_id uuid,
      application_id integer, user_id text, task_type text, model text, provider text, saved bigint)
    RETURNING tenant_id
  )
  INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT DISTINCT written_by, w.tenant_id, now() FROM written w;
END
$$;

REVOKE ALL ON FUNCTION usage_cached FROM PUBLIC;
GRANT EXECUTE ON FUNCTION usage_cached TO application_manager;
