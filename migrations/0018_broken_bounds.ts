import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Targets of the gateway whose charge exceeded what was held for it under a hard cap: calls of this kind are refused there under
-- hard caps until an operator has acknowledged it. Further charges of this kind that exceed theirs are counted meanwhile.
CREATE TABLE gateway_broken_bounds (
  id uuid PRIMARY KEY DEFAULT new_id(),
  provider text NOT NULL,
  model text NOT NULL,
  operation text NOT NULL,
  -- The charge by which it was found.
  reservation_id uuid NOT NULL,
  reserved bigint NOT NULL,
  charged bigint NOT NULL,
  reserved_tokens bigint,
  charged_tokens bigint,
  times integer NOT NULL DEFAULT 1,
  broken_at timestamptz NOT NULL,
  acknowledged_at timestamptz,
  acknowledged_by text,
  reason text
);
CREATE UNIQUE INDEX gateway_broken_bounds_over ON gateway_broken_bounds (provider, model, operation)
WHERE acknowledged_at IS NULL;
`
)
