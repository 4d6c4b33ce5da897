-- The period that contains a moment: start inclusive, end exclusive, infinity if it never ends. Hours are computed
-- within their day, since some time zones shift by half an hour.
CREATE OR REPLACE FUNCTION budget_period(
  period text, zone text, anchor integer, moment timestamptz, OUT starts timestamptz, OUT ends timestamptz)
LANGUAGE plpgsql STABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
  today date;
  first_day date;
  next_day date;
  month_start date;
  months integer;
  span interval;
BEGIN
  IF period IN ('total', 'rolling') THEN
    starts := '-infinity';
    ends := 'infinity';
    RETURN;
  END IF;
  IF period = 'minute' THEN
    starts := date_trunc(period, moment, zone);
    ends := starts + interval '1 minute';
    RETURN;
  END IF;
  IF period = 'hour' THEN
    SELECT d.starts + interval '1 hour' * floor(extract(epoch FROM moment - d.starts) / 3600), d.ends INTO starts, ends
    FROM public.budget_period('day', zone, NULL, moment) d;
    ends := least(starts + interval '1 hour', ends);
    RETURN;
  END IF;
  today := (moment AT TIME ZONE zone)::date;
  -- Where clocks go back across midnight, a date recurs after the next one has begun.
  FOR step IN 0..2 LOOP
    month_start := date_trunc('month', today)::date;
    CASE period
      WHEN 'day' THEN
        first_day := today;
        next_day := today + 1;
      WHEN 'week' THEN
        first_day := today - ((extract(isodow FROM today)::integer - anchor + 7) % 7);
        next_day := first_day + 7;
      WHEN 'month' THEN
        first_day := public.budget_day_of_month(month_start, anchor);
        IF today < first_day THEN
          next_day := first_day;
          first_day := public.budget_day_of_month((month_start - interval '1 month')::date, anchor);
        ELSE
          next_day := public.budget_day_of_month((month_start + interval '1 month')::date, anchor);
        END IF;
      ELSE
        months := CASE period WHEN 'quarter' THEN 3 ELSE 12 END;
        span := make_interval(months => months);
        first_day := (month_start
          - make_interval(months => (extract(month FROM today)::integer - anchor + 12) % months))::date;
        next_day := (first_day + span)::date;
    END CASE;
    starts := public.budget_local_moment(first_day, zone);
    ends := public.budget_local_moment(next_day, zone);
    IF moment < starts THEN
      today := first_day - 1;
    ELSIF moment >= ends THEN
      today := next_day;
    ELSE
      RETURN;
    END IF;
  END LOOP;
  RAISE EXCEPTION 'no % of % around %', period, zone, moment;
END
$$;

REVOKE ALL ON FUNCTION budget_period FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_period TO application_manager;
