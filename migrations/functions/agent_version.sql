-- A template bounds its agents as it is now, not as it was when they were made. The version tells a mint whether either
-- has changed since it was looked at.
CREATE OR REPLACE FUNCTION agent_version(agent timestamptz, template timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT concat_ws('/', extract(epoch FROM agent), extract(epoch FROM template))
$$;
