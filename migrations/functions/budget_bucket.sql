CREATE OR REPLACE FUNCTION budget_bucket(moment timestamptz, bucket_seconds integer) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
  SELECT floor(extract(epoch FROM moment) / bucket_seconds)::bigint
$$;

REVOKE ALL ON FUNCTION budget_bucket FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_bucket TO application_manager;
