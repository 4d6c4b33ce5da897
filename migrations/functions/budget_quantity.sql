-- An amount as the API shows it: in US dollars, or as a number of tokens or requests.
CREATE OR REPLACE FUNCTION budget_quantity(unit text, amount bigint) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
  SELECT CASE unit WHEN 'usd' THEN trim_scale(amount::numeric / 1000000000) ELSE amount::numeric END
$$;

REVOKE ALL ON FUNCTION budget_quantity FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_quantity TO application_manager;
