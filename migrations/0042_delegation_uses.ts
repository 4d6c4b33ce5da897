import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- An agent may act for many users: its grants are listed in the order of their last use.
CREATE INDEX delegation_grants_used ON delegation_grants (agent_id, (CASE WHEN last_used_at IS NULL THEN 'epoch' ELSE last_used_at END), id);
`
)
