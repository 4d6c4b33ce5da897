CREATE OR REPLACE FUNCTION budget_millis(moment timestamptz) RETURNS bigint LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN isfinite(moment) THEN (extract(epoch FROM moment) * 1000)::bigint END
$$;

REVOKE ALL ON FUNCTION budget_millis FROM PUBLIC;
