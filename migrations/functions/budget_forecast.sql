-- The projected spend at the end of a period, at the rate so far; NULL in its first tenth, and for a period without an
-- end.
CREATE OR REPLACE FUNCTION budget_forecast(spent bigint, starts timestamptz, ends timestamptz, moment timestamptz) RETURNS numeric
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
  SELECT CASE
    WHEN NOT isfinite(starts) OR NOT isfinite(ends) THEN NULL
    WHEN moment >= ends THEN spent::numeric
    WHEN extract(epoch FROM moment - starts) * 10 < extract(epoch FROM ends - starts) THEN NULL
    ELSE round(spent * extract(epoch FROM ends - starts) / extract(epoch FROM moment - starts))
  END
$$;

REVOKE ALL ON FUNCTION budget_forecast FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_forecast TO application_manager;
