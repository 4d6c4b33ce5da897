-- How many rows of a list the planner expects to have a search_text like the pattern. It compares the pattern with a sample of
-- the texts, so that a frequent word is seen before the index reads all of its rows.
CREATE OR REPLACE FUNCTION search_estimate(list text, pattern text) RETURNS double precision
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  plan json;
BEGIN
  EXECUTE format('EXPLAIN (FORMAT JSON) SELECT FROM public.%I WHERE search_text LIKE %L', list, pattern) INTO plan;
  RETURN (plan->0->'Plan'->>'Plan Rows')::double precision;
END
$$;

REVOKE ALL ON FUNCTION search_estimate FROM PUBLIC;
GRANT EXECUTE ON FUNCTION search_estimate TO application_manager;
