-- The first of the seven days that roll-ups of grain w have a day in: they are counted from 1970 on.
CREATE OR REPLACE FUNCTION usage_week(day date) RETURNS date
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
  SELECT day - mod(day - '1970-01-01'::date, 7)
$$;
