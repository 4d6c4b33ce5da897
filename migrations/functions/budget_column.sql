CREATE OR REPLACE FUNCTION budget_column(of_column anyarray, total integer) RETURNS anyarray
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT CASE WHEN cardinality(of_column) < total THEN array_fill(of_column[1], ARRAY[total]) ELSE of_column END
$$;

REVOKE ALL ON FUNCTION budget_column FROM PUBLIC;
