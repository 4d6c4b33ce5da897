import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // The first moment at which a zone's clocks show a local time; one that they skip is the moment of the skip.
  yield* sql`
    CREATE FUNCTION budget_local_moment(local timestamp, zone text) RETURNS timestamptz
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
      SELECT coalesce(
        (SELECT min(c) FROM (SELECT (local AT TIME ZONE zone) - s AS c FROM unnest(
          ARRAY[interval '0', interval '30 minutes', interval '1 hour', interval '2 hours', interval '3 hours']) s) m
          WHERE (c AT TIME ZONE zone) = local),
        local AT TIME ZONE zone)
    $$`

  // The period that a moment is in: from its start, up to and without its end. What has no end ends at infinity.
  yield* sql`
    CREATE FUNCTION budget_period(
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
      IF period IN ('minute', 'hour') THEN
        starts := date_trunc(period, moment, zone);
        ends := starts + ('1 ' || period)::interval;
        RETURN;
      END IF;
      today := (moment AT TIME ZONE zone)::date;
      -- Where clocks go back over midnight, a date comes back after the next one has begun.
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
    $$`

  // The 31st of a shorter month is its last day.
  yield* sql`
    CREATE FUNCTION budget_day_of_month(month_start date, day integer) RETURNS date
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
      SELECT least(month_start + (day - 1), (month_start + interval '1 month')::date - 1)
    $$`

  // A ring of buckets, moved on to another newest bucket: as many of the oldest fall out as pass.
  yield* sql`
    CREATE FUNCTION budget_ring_at(ring bigint[], head bigint, bucket bigint) RETURNS bigint[]
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
      SELECT CASE
        WHEN bucket <= head THEN ring
        WHEN bucket - head >= cardinality(ring) THEN array_fill(0::bigint, ARRAY[cardinality(ring)])
        ELSE ring[(bucket - head + 1)::integer:] || array_fill(0::bigint, ARRAY[(bucket - head)::integer])
      END
    $$`
  yield* sql`
    CREATE FUNCTION budget_ring_sum(ring bigint[]) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
      SELECT coalesce(sum(b), 0)::bigint FROM unnest(ring) b
    $$`
  yield* sql`
    CREATE FUNCTION budget_bucket(moment timestamptz, bucket_seconds integer) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
      SELECT floor(extract(epoch FROM moment) / bucket_seconds)::bigint
    $$`
})
