CREATE OR REPLACE FUNCTION use_agent_assertion(agent uuid, used text, until timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
BEGIN
  INSERT INTO public.agent_assertions (agent_id, jti, expires_at) VALUES (agent, used, until)
  ON CONFLICT DO NOTHING;
  RETURN FOUND;
END
$$;

REVOKE ALL ON FUNCTION use_agent_assertion FROM PUBLIC;
GRANT EXECUTE ON FUNCTION use_agent_assertion TO application_manager;
