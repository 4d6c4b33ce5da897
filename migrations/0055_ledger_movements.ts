import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- A reservation that is closed or expires: whether it was open, and so holds what it reserved; and its charge with the actual
-- cost, which is none where \`charge_id\` is null.
CREATE TYPE budget_movement AS (
  tenant_id uuid,
  id uuid,
  holds boolean,
  charge_id uuid,
  amount bigint,
  tokens bigint
);

-- What a batch of settlements changes of one counter, whatever its unit: it frees what was reserved, and charges the rest.
CREATE TYPE budget_counter_change AS (
  counter uuid,
  freed_amount bigint,
  freed_tokens bigint,
  charged_amount bigint,
  charged_tokens bigint,
  requests bigint
);

-- What is decided of a \`budget_closing\`. Of what is done, \`is_after_plan\` says that the plan had ended before, so that the
-- charge is late, and \`is_returned\` that the reservation stays open, as it was before the call that took it over.
CREATE TYPE budget_closing_verdict AS (verdict text, is_after_plan boolean, is_returned boolean);
`)
