import { script } from "../src/platform/database/migration-steps.ts"

export default script(`
-- The type of the parameter that a statement has on a connection whose sessions a pooler changes from transaction to transaction
-- (platform/database/sessions.ts): of each statement outside of transactions, and of the first in one. Reading its value sets
-- whose rows the statement sees, what the planner does without, and whether it writes nothing, and refuses it in a session of
-- another state than the service has verified; which session it is does not matter. What is set ends with the transaction. A state
-- of other settings needs a type of another name, since replicas of an older build use this one.
CREATE DOMAIN pooled_entry AS text CONSTRAINT pooled_entry_check CHECK (
  concat_ws(' ',
    set_config('app.tenant_id', split_part(VALUE, ' ', 1), true),
    CASE split_part(VALUE, ' ', 2) WHEN 'nothing' THEN 'nothing'
      ELSE substr(set_config(split_part(VALUE, ' ', 2), 'off', true), 4) || split_part(VALUE, ' ', 2) END,
    CASE split_part(VALUE, ' ', 3) WHEN 'on' THEN set_config('transaction_read_only', 'on', true) ELSE 'any' END,
    current_user,
    current_setting('row_security', true), current_setting('search_path', true),
    current_setting('default_transaction_isolation', true), current_setting('statement_timeout', true),
    current_setting('idle_in_transaction_session_timeout', true), current_setting('timezone', true),
    current_setting('datestyle', true), current_setting('jit', true),
    current_setting('session_replication_role', true)) = VALUE);
`)
