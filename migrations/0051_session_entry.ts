import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- The type of the parameter by which a statement outside of a transaction enters a tenant (platform/database/sessions.ts):
-- reading its value sets whose rows the statement sees and what the planner does without (nothing or a method), lets it write
-- nothing, and refuses it in another session, or another state of one, than the service has verified. What is set ends with the statement. A state of other settings needs a type
-- of another name, since replicas of an older build use this one.
CREATE DOMAIN session_entry AS text CONSTRAINT session_entry_check CHECK (
  concat_ws(' ',
    set_config('app.tenant_id', split_part(VALUE, ' ', 1), true),
    CASE split_part(VALUE, ' ', 2) WHEN 'nothing' THEN 'nothing'
      ELSE substr(set_config(split_part(VALUE, ' ', 2), 'off', true), 4) || split_part(VALUE, ' ', 2) END,
    set_config('transaction_read_only', 'on', true),
    pg_backend_pid(), current_user,
    current_setting('row_security', true), current_setting('search_path', true),
    current_setting('default_transaction_isolation', true), current_setting('statement_timeout', true),
    current_setting('idle_in_transaction_session_timeout', true), current_setting('timezone', true),
    current_setting('datestyle', true), current_setting('jit', true),
    current_setting('session_replication_role', true)) = VALUE);
`)
