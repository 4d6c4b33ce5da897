-- What a period will have spent at its end, at the rate so far; a tenth of it must be over to tell.
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
