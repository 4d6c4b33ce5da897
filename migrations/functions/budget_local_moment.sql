-- The first moment at which a time zone shows a local time; for a skipped local time, the moment of the skip.
CREATE OR REPLACE FUNCTION budget_local_moment(local timestamp, zone text) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
  SELECT coalesce(
    (SELECT min(c) FROM (SELECT (local AT TIME ZONE zone) - s AS c FROM unnest(
      ARRAY[interval '0', interval '30 minutes', interval '1 hour', interval '2 hours', interval '3 hours']) s) m
      WHERE (c AT TIME ZONE zone) = local),
    local AT TIME ZONE zone)
$$;

REVOKE ALL ON FUNCTION budget_local_moment FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_local_moment TO application_manager;
