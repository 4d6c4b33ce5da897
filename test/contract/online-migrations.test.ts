import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import released from "../../migrations/released.json" with { type: "json" }
import {
  batches,
  contraction,
  index,
  type Migration,
  script,
  type Step,
  uniqueIndex
} from "../../src/platform/database/migration-steps.ts"
import { root } from "./manuals.ts"
import { migrationFaults } from "./migration-lint.ts"
import { changedFunctions, functionHeaders, headerOf } from "./released-functions.ts"

/** Those of the first release make an empty database, and those of any release were checked before it. */
const lastReleased = Math.max(14, released.migration)

const later = fs
  .readdirSync(path.join(root, "migrations"))
  .filter((file) => file.endsWith(".ts") && Number(file.slice(0, 4)) > lastReleased)

it.each(later)("%s stops no requests, and takes nothing away that the release before uses", async (file) => {
  const loaded: { readonly default: Step | Migration } = await import(path.join(root, "migrations", file))
  const steps = Array.isArray(loaded.default) ? (loaded.default as Migration) : [loaded.default as Step]
  assert.deepStrictEqual(migrationFaults(steps, released.version), [])
})

describe("the rules of migrations refuse", () => {
  it.each([
    ["an index", "CREATE INDEX one ON usage_rows (model)"],
    ["a unique index in several lines", "CREATE UNIQUE INDEX IF NOT EXISTS one\n  ON public.agents (name)"],
    ["rows changed at once", "UPDATE budget_counters SET spent = 0"],
    ["rows deleted at once", "DELETE FROM usage_rollups r USING tenants t WHERE r.tenant_id = t.id"],
    ["rows copied", "INSERT INTO billing_closings (id)\nSELECT id FROM billing_statements"],
    ["another type", "ALTER TABLE usage_rows\n  ALTER COLUMN status TYPE smallint"],
    [
      "a generated column",
      "ALTER TABLE agents ADD COLUMN lower_name text NOT NULL GENERATED ALWAYS AS (lower(name)) STORED"
    ],
    ["a default that is computed", "ALTER TABLE agents ADD COLUMN seen uuid DEFAULT gen_random_uuid()"],
    ["a required column", "ALTER TABLE agents ADD COLUMN color text NOT NULL"],
    ["a check", "ALTER TABLE agents ADD CONSTRAINT positive CHECK (size > 0)"],
    ["a reference", "ALTER TABLE agents ADD FOREIGN KEY (color) REFERENCES colors (id)"],
    ["a reference of a new column", "ALTER TABLE agents ADD COLUMN color integer REFERENCES colors (id)"],
    ["a unique constraint", "ALTER TABLE agents ADD CONSTRAINT once UNIQUE (color)"],
    ["NOT NULL", "ALTER TABLE agents ALTER COLUMN color SET NOT NULL"],
    ["a dropped column", "ALTER TABLE IF EXISTS ONLY agents DROP COLUMN color"],
    ["another name", "ALTER TABLE agents RENAME COLUMN color TO colour"],
    ["a dropped table", "DROP TABLE IF EXISTS agents"],
    ["a field of a composite type", "ALTER TYPE budget_closing ADD ATTRIBUTE color text"],
    ["a lock", "LOCK TABLE agents IN SHARE MODE"],
    ["a column without the word", "ALTER TABLE agents ADD color text NOT NULL"],
    ["a default after brackets", "ALTER TABLE agents ADD COLUMN size numeric(10, 2) DEFAULT random()"],
    ["a default of parts", "ALTER TABLE agents ADD COLUMN size text DEFAULT 'x' || clock_timestamp()"],
    ["a dropped column without the word", "ALTER TABLE agents DROP color"],
    ["a quoted name", 'ALTER TABLE "agents" DROP COLUMN "color"'],
    [
      "a validation in the same step",
      "ALTER TABLE agents ADD CONSTRAINT one CHECK (true) NOT VALID; ALTER TABLE agents VALIDATE CONSTRAINT one"
    ],
    ["a change after WITH", "WITH one AS (SELECT 1) UPDATE agents SET size = 1"],
    ["a block", "DO $$ BEGIN UPDATE agents SET size = 1; END $$"],
    ["a merge", "MERGE INTO agents a USING tenants t ON true WHEN MATCHED THEN DELETE"],
    ["a lock without the word", "LOCK agents"],
    ["a dropped type", "DROP TYPE session_entry"],
    ["a table that exists already", "CREATE TABLE IF NOT EXISTS agents (id integer);\nDROP TABLE agents"],
    ["a second statement in a line", "SELECT 1; DELETE FROM agents"],
    ["a statement after others", "CREATE TABLE colors (id integer);\nCREATE INDEX one ON agents (color)"]
  ])("%s", (_, statement) => {
    assert.isNotEmpty(migrationFaults([script(`-- Why.\n${statement};\n`)]))
  })

  it.each(["1.2.0", "2.0.0", "1.10.0"])("a drop of what was unused since %s, after 1.1.9", (unusedSince) => {
    assert.lengthOf(migrationFaults([contraction("ALTER TABLE agents DROP COLUMN color", unusedSince)], "1.1.9"), 1)
  })

  it("a batch of all rows", () => {
    assert.lengthOf(migrationFaults([batches("UPDATE agents SET color = 'red' WHERE color IS NULL")]), 1)
  })
})

describe("the rules of migrations admit", () => {
  it.each([
    [
      "a new table with what belongs to it",
      "CREATE TABLE colors (id integer NOT NULL);\nCREATE INDEX colors_id ON colors (id);\nINSERT INTO colors SELECT 1;\nALTER TABLE colors ENABLE ROW LEVEL SECURITY"
    ],
    ["a column", "ALTER TABLE agents ADD COLUMN color text"],
    [
      "a column with a constant",
      "ALTER TABLE agents ADD COLUMN is_red boolean NOT NULL DEFAULT false, ADD COLUMN size integer DEFAULT 3"
    ],
    ["a constraint of new rows", "ALTER TABLE agents ADD CONSTRAINT positive CHECK (size > 0) NOT VALID"],
    ["its validation", "ALTER TABLE agents VALIDATE CONSTRAINT positive"],
    ["a constraint by an index", "ALTER TABLE agents ADD CONSTRAINT once UNIQUE USING INDEX agents_once"],
    ["a time as the default", "ALTER TABLE agents ADD COLUMN seen_at timestamptz NOT NULL DEFAULT now()"],
    ["a list as the default", "ALTER TABLE agents ADD COLUMN names text[] NOT NULL DEFAULT '{}'"],
    ["another name of a constraint", "ALTER TABLE agents RENAME CONSTRAINT one TO two"],
    ["a view", "CREATE OR REPLACE VIEW bounded AS SELECT id FROM agents"],
    ["a row", "INSERT INTO installation (name, value, created_at) VALUES ('one', '1', now())"],
    ["a column that is no longer required", "ALTER TABLE agents ALTER COLUMN color DROP NOT NULL"]
  ])("%s", (_, statement) => {
    assert.deepStrictEqual(migrationFaults([script(`${statement};\n`)]), [])
  })

  it("an index and batches as steps", () => {
    const change =
      "UPDATE agents SET color = 'red' WHERE ctid = ANY (ARRAY(SELECT ctid FROM agents WHERE color IS NULL LIMIT 1000))"
    const steps = [
      index("agents_color", "agents", "(color)"),
      uniqueIndex("agents_once", "agents", "(once)"),
      batches(change)
    ]
    assert.deepStrictEqual(migrationFaults(steps), [])
  })

  it.each(["1.1.9", "1.1.8", "1.0.10", "0.9.9"])("a drop of what was unused since %s, after 1.1.9", (unusedSince) => {
    const steps = [contraction("DROP TABLE colors;\nALTER TABLE agents DROP COLUMN color", unusedSince)]
    assert.deepStrictEqual(migrationFaults(steps, "1.1.9"), [])
  })
})

const header = (text: string) => ({ one: headerOf(text) })

describe("functions of the release before", () => {
  it("have the arguments and the result that replicas of it rely on, or another name", () => {
    assert.deepStrictEqual(changedFunctions(released.functions, functionHeaders()), [])
  })

  it("are compared by what callers see of them", () => {
    const headers = functionHeaders()
    for (const [name, header] of Object.entries(headers)) assert.match(header, new RegExp(`^${name} ?\\(.*\\)`), name)
    const before = header("-- One.\nCREATE OR REPLACE FUNCTION one(a integer) RETURNS text\nLANGUAGE sql AS 'a'")
    const changes = [
      "CREATE OR REPLACE FUNCTION one(a integer, b text) RETURNS text LANGUAGE sql AS 'a'",
      "CREATE OR REPLACE FUNCTION one(b integer) RETURNS text LANGUAGE sql AS 'a'",
      "CREATE OR REPLACE FUNCTION one(a integer) RETURNS json LANGUAGE sql AS 'a'"
    ]
    for (const change of changes) assert.lengthOf(changedFunctions(before, header(change)), 1, change)
    const same = "-- Two.\nCREATE OR REPLACE FUNCTION one(a integer)\n  RETURNS text LANGUAGE plpgsql AS 'b'"
    assert.isEmpty(changedFunctions(before, header(same)))
    assert.isEmpty(changedFunctions(before, {}))
  })
})
