-- The anomalies that generated usage of a range of days has: one every 12 days, of an agent by its place among all.
CREATE OR REPLACE FUNCTION usage_generate_labels(first date, days integer)
RETURNS TABLE (agent_place integer, kind text, opens timestamptz, closes timestamptz, factor double precision)
LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, public AS $$
  SELECT k * 5 % 11, l.kind, s.at, s.at + l.hours * interval '1 hour', l.factor
  FROM generate_series(0, days / 12 - 1) k
  JOIN (VALUES (0, 'spike', 2, 12.0), (1, 'loop', 8, 7.0), (2, 'level-shift', 72, 3.5)) AS l(n, kind, hours, factor)
    ON l.n = k % 3
  CROSS JOIN LATERAL (SELECT (first + 9 + 12 * k)::timestamp AT TIME ZONE 'UTC' + k * 3 % 7 * interval '1 hour'
    + interval '9 hours' AS at) s
$$;

REVOKE ALL ON FUNCTION usage_generate_labels FROM PUBLIC;
