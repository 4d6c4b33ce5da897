import { script } from "../src/platform/database/migrations.ts"

export default script(`
CREATE TABLE registration_tokens (
  id uuid PRIMARY KEY DEFAULT new_id(),
  token_sha256 bytea NOT NULL CONSTRAINT registration_tokens_sha256 UNIQUE,
  uses integer NOT NULL CHECK (uses > 0),
  remaining_uses integer NOT NULL CHECK (remaining_uses BETWEEN 0 AND uses),
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL
);

-- What an application said of itself when it registered, under the id of the application.
CREATE TABLE application_registrations (
  id integer PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
  access_token_sha256 bytea NOT NULL,
  client_name text,
  client_uri text,
  redirect_uris text[] NOT NULL,
  jwks jsonb,
  jwks_uri text,
  contacts text[] NOT NULL,
  software_id text,
  software_version text,
  requested_scopes text[] NOT NULL,
  -- The key that the approval issued; those that took its place refer to it.
  api_key_id uuid REFERENCES api_keys (id),
  -- That key until the application has read it.
  sealed_secret bytea,
  registration_token_id uuid,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK (sealed_secret IS NULL OR api_key_id IS NOT NULL)
);
CREATE INDEX applications_status ON applications (status, id);
`)
