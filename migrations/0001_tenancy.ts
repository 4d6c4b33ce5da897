import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Roles belong to the whole server, so another database's service may create it at the same moment.
DO $$
BEGIN
  IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'application_manager') THEN
    CREATE ROLE application_manager NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS NOREPLICATION;
  END IF;
EXCEPTION
  WHEN duplicate_object OR unique_violation THEN NULL;
  WHEN insufficient_privilege THEN
    RAISE EXCEPTION 'The database user % may not create the role application_manager. Let an administrator run: CREATE ROLE application_manager NOLOGIN; GRANT application_manager TO %;', current_user, current_user
      USING ERRCODE = 'insufficient_privilege';
END
$$;

DO $$
BEGIN
  IF NOT pg_has_role(current_user, 'application_manager', 'MEMBER')
    OR NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    EXECUTE format('GRANT application_manager TO %I', current_user);
  END IF;
EXCEPTION
  WHEN insufficient_privilege THEN NULL;
  WHEN unique_violation THEN NULL;
END
$$;

-- Lists are in the order that people expect of names, by the rules of ICU, whatever the locale of the database.
DO $$
BEGIN
  IF to_regcollation('"und-x-icu"') IS NULL THEN
    RAISE EXCEPTION 'The collation und-x-icu is missing, since this PostgreSQL was built without ICU, or the encoding of the database is not UTF8. Use a PostgreSQL with ICU, as its packages are, and a database in UTF8.'
      USING ERRCODE = 'feature_not_supported';
  END IF;
END
$$;

-- Searches find a part of a text by the trigrams that it has.
CREATE EXTENSION IF NOT EXISTS pg_trgm;

GRANT USAGE ON SCHEMA public TO application_manager;
ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO application_manager;
GRANT SELECT ON applied_migrations TO application_manager;

-- The functions that the database has, by their revision, and what the oldest build needs that still runs with the database.
CREATE TABLE applied_functions (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  revision integer NOT NULL,
  oldest_migration integer NOT NULL,
  oldest_revision integer NOT NULL,
  checksum text NOT NULL,
  version text NOT NULL,
  names text[] NOT NULL,
  applied_at timestamptz NOT NULL
);
REVOKE INSERT, UPDATE, DELETE ON applied_functions FROM application_manager;

CREATE TABLE tenants (
  id uuid PRIMARY KEY DEFAULT new_id(),
  name text NOT NULL,
  slug text NOT NULL UNIQUE,
  status text NOT NULL CHECK (status IN ('active', 'suspended')),
  settings jsonb NOT NULL DEFAULT '{}',
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' ' || slug)) STORED
);
CREATE INDEX tenants_search ON tenants USING gin (search_text gin_trgm_ops);
CREATE INDEX tenants_created ON tenants (created_at, id);
CREATE INDEX tenants_name ON tenants (name COLLATE "und-x-icu", id);
INSERT INTO tenants (name, slug, status, created_at, updated_at)
VALUES ('Default', 'default', 'active', now(), now());

-- What the installation remembers about itself: digests of keys that it generated, never a key.
CREATE TABLE installation (
  name text PRIMARY KEY,
  value jsonb NOT NULL,
  created_at timestamptz NOT NULL
);

CREATE TABLE idempotency_keys (
  principal text NOT NULL,
  route text NOT NULL,
  key text NOT NULL,
  request_sha256 bytea NOT NULL,
  status smallint NOT NULL,
  headers jsonb NOT NULL,
  body text NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (principal, route, key)
);
CREATE INDEX idempotency_keys_age ON idempotency_keys (created_at);

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
`,
  ["new_id", "sees_tenant"]
)
