import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
CREATE TABLE applications (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  slug text NOT NULL CONSTRAINT applications_slug UNIQUE,
  description text NOT NULL DEFAULT '',
  status text NOT NULL CHECK (status IN ('active', 'pending', 'rejected', 'suspended')),
  built_in boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL
);
CREATE INDEX applications_created ON applications (created_at);

CREATE TABLE roles (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name text NOT NULL,
  description text NOT NULL,
  application_id integer NOT NULL CONSTRAINT roles_application REFERENCES applications (id),
  capabilities text[] NOT NULL,
  built_in boolean NOT NULL DEFAULT false,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CONSTRAINT roles_name UNIQUE (application_id, name)
);

CREATE TABLE trial_users (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  first_name text NOT NULL,
  last_name text NOT NULL,
  email text NOT NULL,
  organization text,
  is_active boolean NOT NULL,
  email_verified boolean NOT NULL,
  trial_start_date timestamptz NOT NULL,
  trial_end_date timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  CHECK (trial_end_date >= trial_start_date)
);
CREATE UNIQUE INDEX trial_users_email ON trial_users (lower(email));
CREATE INDEX trial_users_active ON trial_users (is_active, id);
-- For the dashboard's trends, which count new rows per day.
CREATE INDEX trial_users_created ON trial_users (created_at);

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
