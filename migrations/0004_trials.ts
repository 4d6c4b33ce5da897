import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
CREATE TABLE trial_users (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  first_name text NOT NULL,
  last_name text NOT NULL,
  email text NOT NULL,
  -- What the address is compared by, as the service writes it: the database has other rules for letters.
  email_key text NOT NULL,
  organization text,
  is_active boolean NOT NULL,
  email_verified boolean NOT NULL,
  trial_start_date timestamptz NOT NULL,
  trial_end_date timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  search_text text NOT NULL
    GENERATED ALWAYS AS (lower(first_name || ' ' || last_name || ' ' || email || ' ' || coalesce(organization, ''))) STORED,
  CHECK (trial_end_date >= trial_start_date)
);
CREATE UNIQUE INDEX trial_users_email ON trial_users (email_key);
CREATE INDEX trial_users_address ON trial_users (email COLLATE "und-x-icu", id);
CREATE INDEX trial_users_active ON trial_users (is_active, id);
CREATE INDEX trial_users_search ON trial_users USING gin (search_text gin_trgm_ops);
CREATE INDEX trial_users_created ON trial_users (created_at, id);
CREATE INDEX trial_users_last_name ON trial_users (last_name COLLATE "und-x-icu", id);
CREATE INDEX trial_users_trial_end ON trial_users (trial_end_date, id);

CREATE TABLE sessions (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  trial_user_id integer NOT NULL,
  ip_address text NOT NULL,
  started_at timestamptz NOT NULL,
  last_activity_at timestamptz NOT NULL,
  is_active boolean NOT NULL,
  -- Whether the session is the sign-in of an account, which ends with it.
  is_sign_in boolean NOT NULL DEFAULT false
);
CREATE INDEX sessions_user ON sessions (trial_user_id, id);
CREATE INDEX sessions_active ON sessions (is_active, id);
CREATE INDEX sessions_idle ON sessions (last_activity_at) WHERE is_active;
CREATE INDEX sessions_started ON sessions (started_at);
`
)
