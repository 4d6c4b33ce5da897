import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Locked by every change of a tree's structure. Such changes get increasing timestamps even if the clock goes back.
CREATE TABLE configuration_trees (
  application_id integer PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
  changed_at timestamptz NOT NULL
);

CREATE TABLE configuration_nodes (
  id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  application_id integer NOT NULL CONSTRAINT configuration_nodes_application REFERENCES applications (id),
  parent_id integer REFERENCES configuration_nodes (id),
  name text NOT NULL CHECK (octet_length(name) BETWEEN 1 AND 255),
  type text NOT NULL CHECK (type IN ('file', 'folder')),
  schema_id integer REFERENCES configuration_nodes (id) ON DELETE SET NULL,
  version integer,
  size integer,
  sha256 bytea CHECK (octet_length(sha256) = 32),
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  updated_at timestamptz NOT NULL,
  updated_by text NOT NULL,
  placed_at timestamptz NOT NULL,
  deleted_at timestamptz,
  deleted_by text,
  deleted_with integer,
  CHECK ((type = 'file') = (version IS NOT NULL)),
  CHECK ((type = 'file') = (size IS NOT NULL)),
  CHECK ((type = 'file') = (sha256 IS NOT NULL)),
  CHECK (schema_id IS NULL OR type = 'file'),
  CHECK ((deleted_at IS NULL) = (deleted_with IS NULL))
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX configuration_nodes_name ON configuration_nodes (application_id, parent_id, name)
NULLS NOT DISTINCT WHERE deleted_at IS NULL;
CREATE INDEX configuration_nodes_of_application ON configuration_nodes (application_id, id);
CREATE INDEX configuration_nodes_parent ON configuration_nodes (parent_id);
CREATE INDEX configuration_nodes_schema ON configuration_nodes (schema_id) WHERE schema_id IS NOT NULL;
CREATE INDEX configuration_nodes_deleted ON configuration_nodes (deleted_at) WHERE deleted_at IS NOT NULL;

CREATE TABLE configuration_versions (
  node_id integer NOT NULL REFERENCES configuration_nodes (id) ON DELETE CASCADE,
  version integer NOT NULL CHECK (version > 0),
  content text NOT NULL,
  size integer NOT NULL,
  sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
  restored_from integer,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  PRIMARY KEY (node_id, version)
);
REVOKE UPDATE ON configuration_versions FROM application_manager;

-- The position of every node from a given time on: the tree at any past time, even after nodes were purged.
CREATE TABLE configuration_placements (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  node_id integer NOT NULL,
  application_id integer NOT NULL,
  parent_id integer,
  name text NOT NULL,
  type text NOT NULL,
  schema_id integer,
  live boolean NOT NULL,
  valid_from timestamptz NOT NULL
);
CREATE INDEX configuration_placements_node ON configuration_placements (application_id, node_id, id DESC);

-- A new version names none of these columns, so saving a file costs nothing here.
CREATE TRIGGER configuration_nodes_placement
AFTER INSERT OR UPDATE OF parent_id, name, schema_id, deleted_at ON configuration_nodes
FOR EACH ROW EXECUTE FUNCTION configuration_record_placement();
`,
  ["configuration_record_placement"]
)
