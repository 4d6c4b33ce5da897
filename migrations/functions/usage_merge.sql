-- Makes one part of 16 of a level, and one of all parts of a day or a week that is over, so that reports read few. For the caller that
-- folds.
CREATE OR REPLACE FUNCTION usage_merge() RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  whole CONSTANT smallint := 9;
  over date := ((now() - interval '1 hour') AT TIME ZONE 'UTC')::date;
  at integer;
  parts usage_rollups[];
BEGIN
  FOR at IN 0..3 LOOP
    WITH due AS MATERIALIZED (
      SELECT o.tenant_id, o.dimension, o.grain, o.day FROM usage_rollups o WHERE o.level = at
      GROUP BY 1, 2, 3, 4 HAVING count(*) >= 16
    ), taken AS (
      DELETE FROM usage_rollups r USING due d
      WHERE r.tenant_id = d.tenant_id AND r.dimension = d.dimension AND r.grain = d.grain AND r.day = d.day
        AND r.level = at RETURNING r.*
    )
    SELECT array_agg(ROW(t.*)::usage_rollups) INTO parts FROM taken t;
    EXIT WHEN parts IS NULL;
    INSERT INTO usage_rollups SELECT * FROM usage_parts(NULL, NULL, NULL, NULL, NULL, parts, (at + 1)::smallint);
  END LOOP;
  WITH due AS MATERIALIZED (
    SELECT DISTINCT o.tenant_id, o.dimension, o.grain, o.day FROM usage_rollups o WHERE o.level < whole
      AND o.day < over - CASE o.grain WHEN 'w' THEN 6 ELSE 0 END
    LIMIT 40
  ), taken AS (
    DELETE FROM usage_rollups r USING due d
    WHERE r.tenant_id = d.tenant_id AND r.dimension = d.dimension AND r.grain = d.grain AND r.day = d.day RETURNING r.*
  )
  SELECT array_agg(ROW(t.*)::usage_rollups) INTO parts FROM taken t;
  IF parts IS NOT NULL THEN
    INSERT INTO usage_rollups SELECT * FROM usage_parts(NULL, NULL, NULL, NULL, NULL, parts, whole);
  END IF;
END
$$;

REVOKE ALL ON FUNCTION usage_merge FROM PUBLIC;
