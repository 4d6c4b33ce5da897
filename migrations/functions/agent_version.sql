-- The current limits of a template apply to its agents, not those at the agents' creation. A mint compares the version
-- to detect that either has changed since it was read.
CREATE OR REPLACE FUNCTION agent_version(agent timestamptz, template timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
  SELECT concat_ws('/', extract(epoch FROM agent), extract(epoch FROM template))
$$;
