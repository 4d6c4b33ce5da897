import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
DROP VIEW usage_cells;
DROP FUNCTION IF EXISTS usage_parts(bigint[], uuid[], timestamptz[], timestamptz, timestamptz, usage_rollups[], smallint);
DROP FUNCTION IF EXISTS usage_coarser(usage_rollups, "char");
ALTER TABLE usage_rollups RENAME TO usage_rollups_before;
ALTER INDEX usage_rollups_place RENAME TO usage_rollups_before_place;
ALTER INDEX usage_rollups_open RENAME TO usage_rollups_before_open;

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
  -- Histograms, one after the other in the order of the cells: where that of a cell ends, and so many calls of it have a
  -- latency in the bucket (the power of 1.1 that bounds it).
  latency_ends integer[],
  latency_buckets smallint[],
  latency_calls bigint[]
);

INSERT INTO usage_rollups
SELECT r.tenant_id, r.dimension, r.grain, r.day, r.level, r.keys, r.places, r.cost, r.requests, r.errors, r.input_tokens,
  r.output_tokens, r.cached_input_tokens, r.saved, h.ends, h.buckets, h.calls
FROM usage_rollups_before r CROSS JOIN LATERAL (
  SELECT array_agg(j.n ORDER BY j.cell) FILTER (WHERE j.is_last) AS ends,
    array_agg(j.bucket ORDER BY j.cell, j.bucket) FILTER (WHERE j.bucket IS NOT NULL) AS buckets,
    array_agg(j.calls ORDER BY j.cell, j.bucket) FILTER (WHERE j.bucket IS NOT NULL) AS calls
  FROM (
    SELECT c.cell, l.bucket, l.calls, (count(l.bucket) OVER (ORDER BY c.cell))::integer AS n,
      row_number() OVER (PARTITION BY c.cell ORDER BY l.bucket) = 1 AS is_last
    -- Of several cells of a key and a place the first has the histogram.
    FROM (
      SELECT u.*, row_number() OVER (PARTITION BY u.key, u.place ORDER BY u.cell) = 1 AS is_first
      FROM unnest(r.keys, r.places) WITH ORDINALITY AS u(key, place, cell)
    ) c
    LEFT JOIN (
      SELECT u.key, u.place, u.bucket, sum(u.calls)::bigint AS calls
      FROM unnest(r.latency_keys, r.latency_places, r.latency_buckets, r.latency_calls) AS u(key, place, bucket, calls)
      GROUP BY 1, 2, 3
    ) l ON c.is_first AND l.key = c.key AND l.place = c.place
  ) j WHERE r.latency_keys IS NOT NULL
) h;
DROP TABLE usage_rollups_before;

CREATE INDEX usage_rollups_place ON usage_rollups (tenant_id, dimension, grain, day);
CREATE INDEX usage_rollups_open ON usage_rollups (level, day, tenant_id, dimension, grain) WHERE level < 9;
ALTER TABLE usage_rollups ENABLE ROW LEVEL SECURITY;
CREATE POLICY usage_rollups_of_tenant ON usage_rollups USING (
  (SELECT current_setting('app.tenant_id', true)) = '*'
  OR tenant_id::text = (SELECT current_setting('app.tenant_id', true)));
REVOKE INSERT, UPDATE, DELETE ON usage_rollups FROM application_manager;

-- The cells of all parts, each with its start; a key may have several.
CREATE VIEW usage_cells WITH (security_invoker = true) AS
SELECT r.tenant_id, r.dimension, r.grain, r.day, (r.day::timestamp AT TIME ZONE 'UTC')
    + CASE r.grain WHEN 'q' THEN interval '15 minutes' ELSE interval '1 hour' END * c.place AS start,
  c.key, c.cost, c.requests, c.errors, c.input_tokens, c.output_tokens, c.cached_input_tokens, c.saved
FROM usage_rollups r CROSS JOIN LATERAL unnest(r.keys, r.places, r.cost, r.requests, r.errors, r.input_tokens,
  r.output_tokens, r.cached_input_tokens, r.saved)
  AS c(key, place, cost, requests, errors, input_tokens, output_tokens, cached_input_tokens, saved);
GRANT SELECT ON usage_cells TO application_manager;
`
)
