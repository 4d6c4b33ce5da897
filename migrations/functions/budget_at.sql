-- A column that has the same value in all rows of a batch has it once. These are written into the statements that use them.
CREATE OR REPLACE FUNCTION budget_at(of_column anyarray, place integer) RETURNS anyelement
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT of_column[least(place, cardinality(of_column))] $$;

REVOKE ALL ON FUNCTION budget_at FROM PUBLIC;
