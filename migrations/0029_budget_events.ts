import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // An amount as callers read it: US dollars, or as many as it is.
  yield* sql`
    CREATE FUNCTION budget_quantity(unit text, amount bigint) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
      SELECT CASE unit WHEN 'usd' THEN trim_scale(amount::numeric / 1000000000) ELSE amount::numeric END
    $$`

  // As before, and what is noted is an entry of the audit log in the same transaction: the log is where events come from.
  yield* sql`
    CREATE OR REPLACE FUNCTION budget_note_alerts(moment timestamptz, counters uuid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
    DECLARE
      entries json; places integer[]; tenants uuid[];
    BEGIN
      WITH facts AS (
        SELECT b.tenant_id, b.id, b.cap_id, b.spent, b.reserved, b.fired, b.ring IS NOT NULL AS rolling,
          budget_limit(b.tenant_id, b.cap_id, b.counter_key, moment) AS lim,
          budget_forecast(b.spent, b.period_start, b.period_end, moment) AS forecast, c.alert_thresholds
        FROM budget_counters b JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
        WHERE b.id = ANY (counters) AND c.deleted_at IS NULL AND c.alert_thresholds <> '[]'
      ), passed AS (
        SELECT f.tenant_id, f.id, f.cap_id, f.spent, f.reserved, f.fired, f.rolling, f.lim, t.measure, t.percent,
          t.percent * 3 + CASE t.measure WHEN 'spent' THEN 0 WHEN 'committed' THEN 1 ELSE 2 END AS code
        FROM facts f, (SELECT DISTINCT f2.id, r.measure, r.percent FROM facts f2,
          jsonb_to_recordset(f2.alert_thresholds) AS r(measure text, percent integer)) t
        WHERE t.id = f.id AND t.percent::numeric * f.lim <= 100 * CASE t.measure
          WHEN 'spent' THEN f.spent WHEN 'committed' THEN f.spent::numeric + f.reserved ELSE f.forecast END
          AND f.spent + f.reserved > 0
      ), codes AS (
        SELECT f.tenant_id, f.id, coalesce(array_agg(DISTINCT c ORDER BY c) FILTER (WHERE c IS NOT NULL), '{}') AS fired
        FROM facts f LEFT JOIN LATERAL (
          SELECT code FROM passed p WHERE p.tenant_id = f.tenant_id AND p.id = f.id
          UNION SELECT unnest(f.fired) WHERE NOT f.rolling) AS o(c) ON true
        GROUP BY f.tenant_id, f.id
      ), kept AS (
        UPDATE budget_counters b SET fired = codes.fired FROM codes
        WHERE b.tenant_id = codes.tenant_id AND b.id = codes.id AND b.fired <> codes.fired
      ), noted AS (
        INSERT INTO budget_alerts (tenant_id, cap_id, counter_id, measure, percent, limit_amount, spent, reserved, occurred_at)
        SELECT tenant_id, cap_id, id, measure, percent, lim, spent, reserved, moment
        FROM passed WHERE NOT code = ANY (fired)
        RETURNING *
      ), worded AS (
        SELECT row_number() OVER ()::integer AS place, a.cap_id,
          nullif(a.tenant_id, '00000000-0000-0000-0000-000000000000') AS tenant,
          json_build_object('alertId', a.id, 'name', c.name, 'measure', a.measure, 'percent', a.percent,
            'unit', c.unit, 'scope', c.scope || coalesce(nullif(b.counter_key, '')::jsonb, '{}'),
            'limit', budget_quantity(c.unit, a.limit_amount), 'spent', budget_quantity(c.unit, a.spent),
            'reserved', budget_quantity(c.unit, a.reserved)) AS after
        FROM noted a
        JOIN budget_counters b ON b.tenant_id = a.tenant_id AND b.id = a.counter_id
        JOIN budget_caps c ON c.tenant_id = a.tenant_id AND c.id = a.cap_id
      )
      SELECT json_agg(json_build_object('place', w.place, 'action_type', 'BudgetCapThresholdPassed',
          'entity_type', 'BudgetCap', 'entity_id', w.cap_id, 'user_id', 'system', 'actor_type', 'system',
          'changes', json_build_object('before', NULL, 'after', w.after))),
        array_agg(w.place), array_agg(w.tenant)
      INTO entries, places, tenants FROM worded w;
      IF places IS NOT NULL THEN PERFORM budget_audit(entries, places, tenants, moment); END IF;
    END
    $$`
  yield* sql`CREATE INDEX budget_alerts_cap ON budget_alerts (tenant_id, cap_id, id)`
  yield* sql`CREATE INDEX budget_alerts_id ON budget_alerts (id)`

  // As before; grants without end add up to the most that a counter can hold, and no further.
  yield* sql`
    CREATE OR REPLACE FUNCTION budget_limit(tenant uuid, cap uuid, key text, moment timestamptz) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      SELECT least(9223372036854775807, c.limit_amount + coalesce((
        SELECT sum(g.amount) FROM budget_grants g
        WHERE g.tenant_id = tenant AND g.cap_id = cap AND g.ended_at IS NULL
          AND (g.expires_at IS NULL OR g.expires_at > moment)
          AND (g.counter_key IS NULL OR g.counter_key = key)), 0))::bigint
      FROM budget_caps c WHERE c.tenant_id = tenant AND c.id = cap
    $$`

  // As before, but hours are those of their day, since some clocks are moved by half of one.
  yield* sql`
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

  // System callers name a charge or a cap and no tenant; a counter is noted by its id.
  yield* sql`CREATE INDEX budget_entries_id ON budget_entries (id)`
  yield* sql`CREATE INDEX budget_caps_id ON budget_caps (id)`
  yield* sql`CREATE INDEX budget_counters_id ON budget_counters (id)`

  // Those of a cap that run, among all that it ever had.
  yield* sql`CREATE INDEX budget_counters_running ON budget_counters (tenant_id, cap_id, period_end)`

  // What is neither open nor settled is rare, and looked for by what it is; a reserve and its settle touch none of it.
  yield* sql`
    CREATE INDEX budget_reservations_aside ON budget_reservations (tenant_id, state, id)
    WHERE state IN ('held', 'denied', 'expired', 'released')`
  yield* sql`DROP INDEX budget_reservations_held`

  // Nobody has called it since version 2.
  yield* sql`DROP FUNCTION budgets_reserve_v1(json, json, json)`

  yield* sql`REVOKE ALL ON FUNCTION budget_quantity(text, bigint) FROM PUBLIC`
  yield* sql`GRANT EXECUTE ON FUNCTION budget_quantity(text, bigint) TO application_manager`
})
