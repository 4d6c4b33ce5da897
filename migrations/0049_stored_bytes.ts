import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- How much is read is decided before it is read, and what a tenant stores is summed up without reading it.
ALTER TABLE gateway_responses ADD COLUMN bytes integer NOT NULL GENERATED ALWAYS AS (octet_length(sealed)) STORED;
CREATE INDEX gateway_responses_bytes ON gateway_responses (tenant_id) INCLUDE (bytes);
`
)
