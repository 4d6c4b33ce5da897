import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- A counter while a batch is decided: what its cap allows, what it has with what the batch has been given so far, and how much
-- of \`reserved\` the batch adds. \`id\` is null where plans hold all that the batch needs of it. \`ends\` is the end of its period in
-- milliseconds, null where it has none. \`has_due\` says whether something is to be swept that may free it; null where that was
-- not looked up yet.
CREATE TYPE budget_counter_state AS (
  tenant_id uuid,
  cap_id uuid,
  counter_key text,
  id uuid,
  unit text,
  mode text,
  limit_amount bigint,
  spent bigint,
  reserved bigint,
  added bigint,
  ends bigint,
  has_thresholds boolean,
  has_due boolean
);

-- A counter that governs a request: its place among those of the batch. Where the request's plan holds what is needed of it,
-- \`held_until\` is the end of the period that the plan holds it in.
CREATE TYPE budget_governing AS (place integer, held_until timestamptz);

-- What is decided of a request; \`verdict\` is null until it is. \`counter_ids\` are the counters that it is counted on, those of
-- its plan first. \`headrooms\` are what the counters in \`governs\` have left after it, and \`ends\` when their periods end, null
-- where they never do: both as the answer has them, in text and in milliseconds. Where one of these counters has too little
-- left, \`lacking\` is its place among those of the batch, and \`shortage\` the counter at that moment.
CREATE TYPE budget_verdict AS (
  verdict text,
  governs budget_governing[],
  counter_ids uuid[],
  headrooms text[],
  ends bigint[],
  lacking integer,
  shortage budget_counter_state
);

-- The thresholds that a counter has passed in its period, by what they name; codes of them before.
CREATE TYPE budget_threshold AS (measure text, percent integer);
ALTER TABLE budget_counters ADD COLUMN passed budget_threshold[] NOT NULL DEFAULT '{}';
UPDATE budget_counters SET passed = ARRAY(
  SELECT ROW((ARRAY['spent', 'committed', 'forecast'])[code % 3 + 1], code / 3)::budget_threshold FROM unnest(fired) code
  ORDER BY 1)
WHERE fired <> '{}';
ALTER TABLE budget_counters DROP COLUMN fired;
`)
