import { type Migration } from "../../src/platform/database/migration-steps.ts"

/** Statements without comments, their white space in single spaces. */
const statementsOf = (text: string): ReadonlyArray<string> =>
  text
    .replaceAll(/--[^\n]*/g, "")
    .split(/;\s*(?:\n|$)/)
    .map((one) => one.replaceAll(/\s+/g, " ").trim())
    .filter((one) => one !== "")

const named = String.raw`(?:IF (?:NOT )?EXISTS )?(?:ONLY )?(?:public\.)?(?<table>\w+)`
const any = (pattern: string) => new RegExp(pattern.replace("TABLE_NAME", named), "i")

/** What a statement must not do to a table that a release has, since it reads or writes all of it under a lock, and what does instead. */
const rules: ReadonlyArray<readonly [statement: RegExp, fault: string]> = [
  [
    any(String.raw`^CREATE (?:UNIQUE )?INDEX .*? ON TABLE_NAME`),
    "builds an index while writes wait: make it a step `index`"
  ],
  [any(String.raw`^REINDEX\b(?!.*CONCURRENTLY)(?:.* )?TABLE_NAME`), "rebuilds indexes while writes wait"],
  [any(String.raw`^(?:CLUSTER|VACUUM FULL) TABLE_NAME`), "rewrites the table"],
  [any(String.raw`^LOCK TABLE TABLE_NAME`), "locks the table"],
  [any(String.raw`^UPDATE TABLE_NAME`), "changes rows in one transaction: make it a step `batches`"],
  [any(String.raw`^DELETE FROM TABLE_NAME`), "deletes rows in one transaction: make it a step `batches`"],
  [any(String.raw`^TRUNCATE (?:TABLE )?TABLE_NAME`), "deletes what the release before reads"],
  [any(String.raw`^INSERT INTO TABLE_NAME .*\bSELECT\b`), "copies rows in one transaction: make it a step `batches`"],
  [any(String.raw`^DROP (?:TABLE|VIEW) TABLE_NAME`), "drops what the release before uses: drop it a release later"],
  [any(String.raw`^ALTER TABLE TABLE_NAME .*\bRENAME\b`), "renames what the release before uses"],
  [
    any(String.raw`^ALTER TABLE TABLE_NAME .*\bDROP COLUMN\b`),
    "drops what the release before uses: drop it a release later"
  ],
  [
    any(String.raw`^ALTER TABLE TABLE_NAME .*\bALTER (?:COLUMN )?\w+ (?:SET DATA )?TYPE\b`),
    "rewrites the table: add a column, and fill it in batches"
  ],
  [
    any(String.raw`^ALTER TABLE TABLE_NAME .*\bSET NOT NULL\b`),
    "reads the whole table: add a CHECK … NOT VALID, and validate it"
  ],
  [any(String.raw`^ALTER TABLE TABLE_NAME .*\bADD COLUMN\b[^,]*\bGENERATED\b`), "rewrites the table"],
  [
    any(String.raw`^ALTER TABLE TABLE_NAME .*\bADD COLUMN\b[^,]*\bDEFAULT (?!'|-?\d|true|false|NULL)`),
    "rewrites the table, unless the default is a constant"
  ],
  [
    any(String.raw`^ALTER TABLE TABLE_NAME .*\bADD COLUMN\b(?![^,]*\bDEFAULT\b)[^,]*\bNOT NULL\b`),
    "fails where there are rows"
  ],
  [
    any(String.raw`^ALTER TABLE TABLE_NAME .*\bADD COLUMN\b[^,]*\b(?:PRIMARY KEY|UNIQUE|REFERENCES|CHECK)\b`),
    "reads the whole table: add the constraint NOT VALID"
  ],
  [
    any(String.raw`^ALTER TABLE TABLE_NAME .*\bADD (?:CONSTRAINT \w+ )?(?:CHECK|FOREIGN KEY)\b(?!.*NOT VALID)`),
    "reads the whole table: add it NOT VALID, and validate it in a later step"
  ],
  [
    any(
      String.raw`^ALTER TABLE TABLE_NAME .*\bADD (?:CONSTRAINT \w+ )?(?:PRIMARY KEY|UNIQUE|EXCLUDE)\b(?!.*USING INDEX)`
    ),
    "builds an index while all wait: make it a step `index`, and then add it USING INDEX"
  ],
  [
    any(String.raw`^ALTER TABLE TABLE_NAME .*\bSET (?:TABLESPACE|LOGGED|UNLOGGED|ACCESS METHOD)\b`),
    "rewrites the table"
  ],
  [
    any(String.raw`^ALTER TYPE TABLE_NAME .*\b(?:ADD|DROP|ALTER) ATTRIBUTE\b`),
    "breaks the rows that the release before writes: make another type"
  ],
  [any(String.raw`^ALTER DOMAIN TABLE_NAME .*\bADD\b(?!.*NOT VALID)`), "reads all tables that have it"],
  [any(String.raw`^REFRESH MATERIALIZED VIEW TABLE_NAME`), "reads whole tables under a lock"]
]

const created =
  /^CREATE (?:TABLE|TYPE|DOMAIN|(?:OR REPLACE )?VIEW|MATERIALIZED VIEW|(?:TEMPORARY|TEMP|UNLOGGED) TABLE) (?:IF NOT EXISTS )?(?:public\.)?(\w+)/i

/** Why a migration cannot run while replicas of the release before serve; one line for each fault. */
export const migrationFaults = (migration: Migration): ReadonlyArray<string> => {
  const scripts = migration.flatMap((step) => (step._tag === "Script" ? statementsOf(step.statements) : []))
  const own = new Set(scripts.flatMap((statement) => created.exec(statement)?.[1] ?? []))
  const ofScripts = scripts.flatMap((statement) =>
    rules.flatMap(([pattern, fault]) => {
      const found = pattern.exec(statement)?.groups?.["table"]
      return found === undefined || own.has(found) ? [] : [`${fault}: ${statement.slice(0, 100)}`]
    })
  )
  const ofBatches = migration.flatMap((step) =>
    step._tag === "Batches" && !/\bLIMIT \d+\b/i.test(step.change)
      ? [`a batch has no LIMIT: ${step.change.trim().slice(0, 100)}`]
      : []
  )
  return [...ofScripts, ...ofBatches]
}
