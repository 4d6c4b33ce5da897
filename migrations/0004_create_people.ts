import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE applications (
      id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      name text NOT NULL,
      slug text NOT NULL CONSTRAINT applications_slug UNIQUE,
      description text NOT NULL DEFAULT '',
      status text NOT NULL CHECK (status IN ('active', 'pending', 'rejected', 'suspended')),
      built_in boolean NOT NULL DEFAULT false,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL
    )`
  yield* sql`
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
    )`
  yield* sql`CREATE UNIQUE INDEX trial_users_email ON trial_users (lower(email))`
  yield* sql`CREATE INDEX trial_users_active ON trial_users (is_active, id)`
  yield* sql`
    CREATE TABLE sessions (
      id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      trial_user_id integer NOT NULL,
      ip_address text NOT NULL,
      started_at timestamptz NOT NULL,
      last_activity_at timestamptz NOT NULL,
      is_active boolean NOT NULL
    )`
  yield* sql`CREATE INDEX sessions_user ON sessions (trial_user_id, id)`
  yield* sql`CREATE INDEX sessions_active ON sessions (is_active, id)`
  yield* sql`CREATE INDEX sessions_idle ON sessions (last_activity_at) WHERE is_active`
  yield* sql`
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
    )`
})
