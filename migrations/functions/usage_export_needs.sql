-- Whether rows of a range, which begins and ends with an hour, are still to be exported.
CREATE OR REPLACE FUNCTION usage_export_needs(opens timestamptz, closes timestamptz) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT EXISTS (SELECT FROM usage_export e WHERE e.history_from < closes
      OR EXISTS (SELECT FROM usage_outbox o WHERE o.occurred_at >= opens AND o.occurred_at < closes))
    OR EXISTS (SELECT FROM usage_export_queue q WHERE q.occurred_at >= opens AND q.occurred_at < closes)
    OR EXISTS (SELECT FROM usage_export_files f WHERE f.hour >= opens AND f.hour < closes)
$$;

REVOKE ALL ON FUNCTION usage_export_needs FROM PUBLIC;
