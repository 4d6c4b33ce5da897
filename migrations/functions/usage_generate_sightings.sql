-- Lets agents have been seen when they made the last of the calls that were generated.
CREATE OR REPLACE FUNCTION usage_generate_sightings() RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
  UPDATE agents a SET last_seen_at = u.last FROM (
    SELECT agent_id, max(occurred_at) AS last FROM usage_rows WHERE agent_id IS NOT NULL GROUP BY agent_id) u
  WHERE a.id = u.agent_id
$$;

REVOKE ALL ON FUNCTION usage_generate_sightings FROM PUBLIC;
