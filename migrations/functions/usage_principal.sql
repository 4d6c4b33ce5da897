-- A principal as usage rows have it: `agent` and `api-key` are those that the row names anyway, which is most of them.
CREATE OR REPLACE FUNCTION usage_principal(created_by text, agent_id uuid, api_key_id uuid) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE created_by WHEN 'agent:' || agent_id THEN 'agent' WHEN 'api-key:' || api_key_id THEN 'api-key'
    ELSE created_by END
$$;
