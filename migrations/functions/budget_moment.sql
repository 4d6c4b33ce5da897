-- The moment at which a statement judges time: that of the database, so that replicas whose clocks differ decide alike. Only
-- tests give another. Milliseconds, as answers have them. Without settings of its own it is inlined.
CREATE OR REPLACE FUNCTION budget_moment(given timestamptz) RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT coalesce(given, date_trunc('milliseconds', statement_timestamp()))
$$;

REVOKE ALL ON FUNCTION budget_moment FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_moment TO application_manager;
