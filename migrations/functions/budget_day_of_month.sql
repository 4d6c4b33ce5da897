-- The 31st of a shorter month is its last day.
CREATE OR REPLACE FUNCTION budget_day_of_month(month_start date, day integer) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
  SELECT least(month_start + (day - 1), (month_start + interval '1 month')::date - 1)
$$;

REVOKE ALL ON FUNCTION budget_day_of_month FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_day_of_month TO application_manager;
