import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
ALTER TABLE usage_rollups RENAME TO usage_rollups_before;
ALTER INDEX usage_rollups_pkey RENAME TO usage_rollups_before_pkey;

-- Sums of usage rows for each day and hour, in UTC, of each value of a dimension; of all rows for each quarter of an hour,
-- too. A row is a part of a day's sums and has a cell at each position of its arrays, which PostgreSQL compresses: what
-- is new is another part, and readers add all cells of all parts. A row of usage without the dimension counts under the empty key.
CREATE TABLE usage_rollups (
  tenant_id uuid NOT NULL,
  dimension smallint NOT NULL,
  -- w(eek), d(ay), h(our), q(uarter)
  grain "char" NOT NULL,
  -- In UTC; of a week the first, counted from 1970 on.
  day date NOT NULL,
  -- How often parts were merged into this one; 9 for the parts of a day that is over.
  level smallint NOT NULL,
  keys text[] NOT NULL,
  -- Which hour or quarter of the day.
  places smallint[] NOT NULL,
  cost bigint[] NOT NULL,
  requests bigint[] NOT NULL,
  errors bigint[] NOT NULL,
  input_tokens bigint[] NOT NULL,
  output_tokens bigint[] NOT NULL,
  cached_input_tokens bigint[] NOT NULL,
  saved bigint[] NOT NULL,
  -- Histograms: so many calls of a key and a place have a latency in the bucket (the power of 1.1 that bounds it).
  latency_keys text[],
  latency_places smallint[],
  latency_buckets smallint[],
  latency_calls bigint[]
);
CREATE INDEX usage_rollups_place ON usage_rollups (tenant_id, dimension, grain, day);
CREATE INDEX usage_rollups_open ON usage_rollups (level, day, tenant_id, dimension, grain) WHERE level < 9;
ALTER TABLE usage_rollups ENABLE ROW LEVEL SECURITY;
CREATE POLICY usage_rollups_of_tenant ON usage_rollups USING (
  (SELECT current_setting('app.tenant_id', true)) = '*'
  OR tenant_id::text = (SELECT current_setting('app.tenant_id', true)));
REVOKE INSERT, UPDATE, DELETE ON usage_rollups FROM application_manager;

INSERT INTO usage_rollups
SELECT c.*, l.keys, l.places, l.buckets, l.calls FROM (
  SELECT b.tenant_id, b.dimension, b.grain, (b.start AT TIME ZONE 'UTC')::date AS day, 9,
    array_agg(b.key ORDER BY b.key COLLATE "C", b.start), array_agg((CASE b.grain WHEN 'd' THEN 0
      ELSE extract(epoch FROM b.start)::bigint / CASE b.grain WHEN 'h' THEN 3600 ELSE 900 END
        % CASE b.grain WHEN 'h' THEN 24 ELSE 96 END END)::smallint ORDER BY b.key COLLATE "C", b.start),
    array_agg(b.cost ORDER BY b.key COLLATE "C", b.start), array_agg(b.requests ORDER BY b.key COLLATE "C", b.start),
    array_agg(b.errors ORDER BY b.key COLLATE "C", b.start), array_agg(b.input_tokens ORDER BY b.key COLLATE "C", b.start),
    array_agg(b.output_tokens ORDER BY b.key COLLATE "C", b.start),
    array_agg(b.cached_input_tokens ORDER BY b.key COLLATE "C", b.start),
    array_agg(b.saved ORDER BY b.key COLLATE "C", b.start)
  FROM usage_rollups_before b GROUP BY 1, 2, 3, 4
) c LEFT JOIN (
  SELECT b.tenant_id, b.dimension, b.grain, (b.start AT TIME ZONE 'UTC')::date AS day, array_agg(b.key) AS keys,
    array_agg((CASE b.grain WHEN 'd' THEN 0 ELSE extract(epoch FROM b.start)::bigint / 3600 % 24 END)::smallint) AS places,
    array_agg((e >> 32)::smallint) AS buckets, array_agg(e & 4294967295) AS calls
  FROM usage_rollups_before b CROSS JOIN LATERAL unnest(b.latencies) e GROUP BY 1, 2, 3, 4
) l ON l.tenant_id = c.tenant_id AND l.dimension = c.dimension AND l.grain = c.grain AND l.day = c.day;
INSERT INTO usage_rollups
SELECT c.tenant_id, c.dimension, 'w', c.week, 9, c.keys, array_fill(0::smallint, ARRAY[cardinality(c.keys)]), c.cost,
  c.requests, c.errors, c.input_tokens, c.output_tokens, c.cached_input_tokens, c.saved, l.keys,
  array_fill(0::smallint, ARRAY[cardinality(l.keys)]), l.buckets, l.calls
FROM (
  SELECT c.tenant_id, c.dimension, c.week, array_agg(c.key ORDER BY c.key COLLATE "C") AS keys,
    array_agg(c.cost ORDER BY c.key COLLATE "C") AS cost, array_agg(c.requests ORDER BY c.key COLLATE "C") AS requests,
    array_agg(c.errors ORDER BY c.key COLLATE "C") AS errors,
    array_agg(c.input_tokens ORDER BY c.key COLLATE "C") AS input_tokens,
    array_agg(c.output_tokens ORDER BY c.key COLLATE "C") AS output_tokens,
    array_agg(c.cached_input_tokens ORDER BY c.key COLLATE "C") AS cached_input_tokens,
    array_agg(c.saved ORDER BY c.key COLLATE "C") AS saved
  FROM (
    SELECT r.tenant_id, r.dimension, usage_week(r.day) AS week, e.key, sum(e.cost)::bigint AS cost,
      sum(e.requests)::bigint AS requests, sum(e.errors)::bigint AS errors, sum(e.input_tokens)::bigint AS input_tokens,
      sum(e.output_tokens)::bigint AS output_tokens, sum(e.cached_input_tokens)::bigint AS cached_input_tokens,
      sum(e.saved)::bigint AS saved
    FROM usage_rollups r CROSS JOIN LATERAL unnest(r.keys, r.cost, r.requests, r.errors, r.input_tokens, r.output_tokens,
      r.cached_input_tokens, r.saved)
      AS e(key, cost, requests, errors, input_tokens, output_tokens, cached_input_tokens, saved)
    WHERE r.grain = 'd' GROUP BY 1, 2, 3, 4
  ) c GROUP BY 1, 2, 3
) c LEFT JOIN (
  SELECT l.tenant_id, l.dimension, l.week, array_agg(l.key) AS keys, array_agg(l.bucket) AS buckets,
    array_agg(l.calls) AS calls
  FROM (
    SELECT r.tenant_id, r.dimension, usage_week(r.day) AS week, e.key, e.bucket, sum(e.calls)::bigint AS calls
    FROM usage_rollups r CROSS JOIN LATERAL unnest(r.latency_keys, r.latency_buckets, r.latency_calls)
      AS e(key, bucket, calls)
    WHERE r.grain = 'd' GROUP BY 1, 2, 3, 4, 5
  ) l GROUP BY 1, 2, 3
) l ON l.tenant_id = c.tenant_id AND l.dimension = c.dimension AND l.week = c.week;
DROP FUNCTION IF EXISTS usage_sums(bigint[], uuid[], timestamptz[], timestamptz, timestamptz);
DROP FUNCTION IF EXISTS usage_merge_latencies(bigint[], bigint[]);
DROP TABLE usage_rollups_before;

-- The cells of all parts, each with its start; a key may have several.
CREATE VIEW usage_cells WITH (security_invoker = true) AS
SELECT r.tenant_id, r.dimension, r.grain, r.day, (r.day::timestamp AT TIME ZONE 'UTC')
    + CASE r.grain WHEN 'q' THEN interval '15 minutes' ELSE interval '1 hour' END * c.place AS start,
  c.key, c.cost, c.requests, c.errors, c.input_tokens, c.output_tokens, c.cached_input_tokens, c.saved
FROM usage_rollups r CROSS JOIN LATERAL unnest(r.keys, r.places, r.cost, r.requests, r.errors, r.input_tokens,
  r.output_tokens, r.cached_input_tokens, r.saved)
  AS c(key, place, cost, requests, errors, input_tokens, output_tokens, cached_input_tokens, saved);
GRANT SELECT ON usage_cells TO application_manager;
`,
  ["usage_week"]
)
