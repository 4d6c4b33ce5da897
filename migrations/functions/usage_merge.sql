-- Makes one part of 16 of a level, and one of all parts of a day or a week that is over, so that reports read few. For the caller that
-- folds.
CREATE OR REPLACE FUNCTION usage_merge() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  over date := ((now() - interval '1 hour') AT TIME ZONE 'UTC')::date;
  at integer;
  parts usage_rollups[];
  open_weeks usage_rollups[];
BEGIN
  -- Each part by hour has its like by day and by week with the same day and level, so only it is computed.
  FOR at IN 0..3 LOOP
    WITH due AS MATERIALIZED (
      SELECT o.tenant_id, o.dimension, o.grain, o.day FROM usage_rollups o
      WHERE o.level < 9 AND o.level = at AND o.grain IN ('h', 'q')
      GROUP BY 1, 2, 3, 4 HAVING count(*) >= 16
    ), taken AS (
      DELETE FROM usage_rollups r USING due d
        CROSS JOIN unnest(CASE d.grain WHEN 'h' THEN '{h,d,w}'::"char"[] ELSE '{q}'::"char"[] END) AS g(grain)
      WHERE r.tenant_id = d.tenant_id AND r.dimension = d.dimension AND r.grain = g.grain AND r.day = d.day
        AND r.level = at RETURNING r.*
    )
    SELECT array_agg(ROW(t.*)::usage_rollups) FILTER (WHERE t.grain IN ('h', 'q')) INTO parts FROM taken t;
    EXIT WHEN parts IS NULL;
    WITH merged AS MATERIALIZED (
      SELECT p FROM usage_parts(NULL, NULL, NULL, NULL, NULL, parts, (at + 1)::smallint) p
    )
    INSERT INTO usage_rollups SELECT (m.p).* FROM merged m
    UNION ALL SELECT c.* FROM merged m CROSS JOIN unnest('{d,w}'::"char"[]) AS g(grain)
      CROSS JOIN LATERAL usage_coarser(m.p, g.grain, (m.p).day) c WHERE (m.p).grain = 'h';
  END LOOP;
  -- A day that is over has one part of level 9 and one of level 8 for its week, until that is over.
  WITH due AS MATERIALIZED (
    SELECT DISTINCT o.tenant_id, o.dimension, o.grain, o.day FROM usage_rollups o
    WHERE o.level < 9 AND o.level < 8 AND o.day < over
    LIMIT 40
  ), taken AS (
    DELETE FROM usage_rollups r USING due d
    WHERE r.tenant_id = d.tenant_id AND r.dimension = d.dimension AND r.grain = d.grain AND r.day = d.day
      AND (r.level < 8 OR r.grain <> 'w') RETURNING r.*
  )
  SELECT array_agg(ROW(t.*)::usage_rollups) FILTER (WHERE t.grain <> 'w'),
    array_agg(ROW(t.*)::usage_rollups) FILTER (WHERE t.grain = 'w') INTO parts, open_weeks FROM taken t;
  IF parts IS NOT NULL THEN
    INSERT INTO usage_rollups SELECT * FROM usage_parts(NULL, NULL, NULL, NULL, NULL, parts, 9::smallint);
  END IF;
  IF open_weeks IS NOT NULL THEN
    INSERT INTO usage_rollups SELECT * FROM usage_parts(NULL, NULL, NULL, NULL, NULL, open_weeks, 8::smallint);
  END IF;
  WITH due AS MATERIALIZED (
    SELECT DISTINCT o.tenant_id, o.dimension, usage_week(o.day) AS week FROM usage_rollups o
    WHERE o.level < 9 AND o.level = 8 AND usage_week(o.day) + 6 < over
    LIMIT 40
  ), taken AS (
    DELETE FROM usage_rollups r USING due d
    WHERE r.tenant_id = d.tenant_id AND r.dimension = d.dimension AND r.grain = 'w'
      AND r.day BETWEEN d.week AND d.week + 6 RETURNING r.*
  )
  SELECT array_agg(usage_coarser(ROW(t.*)::usage_rollups, 'w', usage_week(t.day))) INTO parts FROM taken t;
  IF parts IS NOT NULL THEN
    INSERT INTO usage_rollups SELECT * FROM usage_parts(NULL, NULL, NULL, NULL, NULL, parts, 9::smallint);
  END IF;
END
$$;

REVOKE ALL ON FUNCTION usage_merge FROM PUBLIC;
