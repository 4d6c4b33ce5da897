import { script } from "../src/platform/database/migration-steps.ts"

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
  updated_at timestamptz NOT NULL,
  search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' ' || slug)) STORED
);
CREATE INDEX applications_search ON applications USING gin (search_text gin_trgm_ops);
CREATE INDEX applications_created ON applications (created_at, id);
CREATE INDEX applications_name ON applications (name COLLATE "und-x-icu", id);
CREATE INDEX applications_status ON applications (status, id);

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
`
)
