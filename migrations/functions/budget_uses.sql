-- The current counters of the caps that the transaction may see, and the caps that have none yet, by the share of the limit that
-- is used; behind a place, if there is one. Those that are used are found by their levels, those that are not by the ids of
-- their caps. Where that reads too many of them for a page, all are read.
CREATE OR REPLACE FUNCTION budget_uses(moment timestamptz, tenant uuid, cap uuid, is_down boolean, after_share double precision,
  after_cap uuid, after_counter uuid, most integer)
RETURNS TABLE (cap_id uuid, counter_id uuid, share double precision)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  most_read CONSTANT integer := 5000;
  most_apart CONSTANT integer := 1000;
  seen text := current_setting('app.tenant_id', true);
  own uuid := CASE WHEN seen = '*' THEN tenant ELSE nullif(seen, '')::uuid END;
  -- The counters of plans have the id of their cap.
  is_current CONSTANT text := 'b.period_end > $1 AND b.period_start <= $1 AND b.id <> b.cap_id';
  chosen text := concat_ws(' AND ', 'true', 'c.tenant_id = ' || quote_literal(own), 'c.id = ' || quote_literal(cap));
  behind text := CASE WHEN after_share IS NULL THEN 'true' ELSE format('(u.share, u.cap_id, u.counter_id) %s (%L, %L, %L)',
    CASE WHEN is_down THEN '<' ELSE '>' END, after_share, after_cap, after_counter) END;
  apart uuid[]; level smallint; levels smallint[] := '{}'; has_room boolean := true; read integer := 0; met integer := 0;
  of_level integer; own_of_level integer; found_caps uuid[] := '{}'; found_counters uuid[] := '{}'; found_shares double precision[] := '{}'; caps record;
BEGIN
  IF coalesce(seen, '') = '' OR own <> tenant THEN
    RETURN;
  END IF;
  IF after_share > 0 OR (after_share IS NULL AND is_down) THEN
    -- Those whose level may not be that of their share.
    apart := ARRAY(
      SELECT b.id FROM budget_counters b WHERE b.bucket_seconds IS NOT NULL AND (own IS NULL OR b.tenant_id = own)
      UNION ALL
      SELECT b.id FROM budget_grants g JOIN budget_counters b ON b.tenant_id = g.tenant_id AND b.cap_id = g.cap_id
        AND b.counter_key = coalesce(g.counter_key, b.counter_key) AND b.period_end > moment
      WHERE g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment) AND (own IS NULL OR g.tenant_id = own)
      UNION ALL
      SELECT b.id FROM budget_caps c JOIN budget_counters b ON b.tenant_id = c.tenant_id AND b.cap_id = c.id
        AND b.period_end > moment
      WHERE c.limit_changed_at IS NOT NULL AND (own IS NULL OR c.tenant_id = own)
      LIMIT most_apart + 1);
    has_room := cardinality(apart) <= most_apart;
    WHILE has_room LOOP
      IF level IS NULL AND after_share IS NOT NULL THEN
        level := budget_use_level(after_share);
      ELSIF is_down THEN
        level := (SELECT max(b.use_level) FROM budget_counters b WHERE b.use_level < coalesce(level, 32767));
      ELSE
        level := (SELECT min(b.use_level) FROM budget_counters b WHERE b.use_level > level);
      END IF;
      levels := levels || level;
      SELECT count(*), count(*) FILTER (WHERE (own IS NULL OR b.tenant_id = own) AND (cap IS NULL OR b.cap_id = cap))
      INTO of_level, own_of_level
      FROM (
        SELECT b.tenant_id, b.cap_id FROM budget_counters b WHERE b.use_level = level AND b.period_end > moment
        LIMIT most_read + 1
      ) b;
      read := read + of_level;
      has_room := read <= most_read;
      -- Of the first level, some are before the place.
      IF after_share IS NULL OR cardinality(levels) > 1 THEN met := met + own_of_level; END IF;
      CONTINUE WHEN has_room AND level IS NOT NULL AND met < most + cardinality(apart);
      EXIT WHEN NOT has_room;
      SELECT coalesce(array_agg(u.cap_id), '{}'), coalesce(array_agg(u.counter_id), '{}'), coalesce(array_agg(u.share), '{}')
      INTO found_caps, found_counters, found_shares
      -- Each by an index, whatever the planner expects.
      FROM budget_uses_of(moment, format('(
          SELECT * FROM budget_counters b WHERE (b.use_level = ANY (%L) OR b.id = ANY (%L)) AND %s OFFSET 0) b
          CROSS JOIN LATERAL (
            SELECT * FROM budget_caps c WHERE c.tenant_id = b.tenant_id AND c.id = b.cap_id AND %s OFFSET 0) c',
          levels, apart, is_current, chosen), behind || ' AND u.share > 0', is_down, most) u;
      IF cardinality(found_caps) = most OR (level IS NULL AND NOT is_down) THEN
        RETURN QUERY SELECT * FROM unnest(found_caps, found_counters, found_shares);
        RETURN;
      END IF;
      EXIT WHEN level IS NULL;
      -- Some are of caps that were deleted.
      met := cardinality(found_caps);
    END LOOP;
  END IF;
  IF has_room THEN
    EXECUTE format('SELECT count(*) AS count, min(c.id::text) AS low, max(c.id::text) AS high FROM (
        SELECT c.id FROM budget_caps c WHERE %s AND c.deleted_at IS NULL AND %s ORDER BY c.id %s LIMIT $1) c', chosen,
      CASE WHEN after_share = 0 THEN format('c.id %s %L', CASE WHEN is_down THEN '<=' ELSE '>=' END, after_cap) ELSE 'true' END,
      CASE WHEN is_down THEN 'DESC' ELSE 'ASC' END)
    INTO caps USING most_read;
    SELECT found_caps || coalesce(array_agg(u.cap_id), '{}'), found_counters || coalesce(array_agg(u.counter_id), '{}'),
      found_shares || coalesce(array_agg(u.share), '{}')
    INTO found_caps, found_counters, found_shares
    FROM budget_uses_of(moment, format('(
        SELECT * FROM budget_caps c WHERE %s AND c.id BETWEEN %L AND %L OFFSET 0) c LEFT JOIN LATERAL (
          SELECT * FROM budget_counters b WHERE b.tenant_id = c.tenant_id AND b.cap_id = c.id AND %s OFFSET 0) b ON true',
        chosen, caps.low, caps.high, is_current),
      CASE WHEN after_share = 0 THEN behind ELSE 'true' END || ' AND u.share = 0', is_down, most - cardinality(found_caps)) u;
    IF cardinality(found_caps) = most OR (is_down AND caps.count < most_read) THEN
      RETURN QUERY SELECT * FROM unnest(found_caps, found_counters, found_shares);
      RETURN;
    END IF;
  END IF;
  RETURN QUERY SELECT u.* FROM budget_uses_of(moment, format('(
      SELECT * FROM budget_caps c WHERE %s) c LEFT JOIN budget_counters b ON b.tenant_id = c.tenant_id AND b.cap_id = c.id AND %s',
      chosen, is_current), behind, is_down, most) u;
END
$$;

REVOKE ALL ON FUNCTION budget_uses FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_uses TO application_manager;
