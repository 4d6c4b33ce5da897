import { type Migration, type Step } from "../../src/platform/database/migration-steps.ts"

/** Statements without comments, texts, and what is in brackets, their white space in single spaces. */
const statementsOf = (text: string): ReadonlyArray<string> => {
  let bare = text
    .replaceAll(/--[^\n]*/g, "")
    .replaceAll(/\$(\w*)\$.*?\$\1\$/gs, "''")
    .replaceAll(/'(?:[^']|'')*'/g, "''")
    .replaceAll('"', "")
  for (let before = ""; before !== bare;) {
    before = bare
    bare = bare.replaceAll(/\([^()]*\)/g, "[]")
  }
  return bare
    .split(";")
    .map((one) => one.replaceAll(/\s+/g, " ").trim())
    .filter((one) => one !== "")
}

const named = String.raw`(?:IF (?:NOT )?EXISTS )?(?:ONLY )?(?:public\.)?(?<table>\w+)`
const any = (pattern: string) => new RegExp(pattern.replace("TABLE_NAME", named), "i")

type Rules = ReadonlyArray<readonly [pattern: RegExp, fault: string]>

const laterDrop = "drops what the release before uses: drop it a release later, as a `contraction`"
const inBatches = "changes rows in one transaction: make it a step `batches`"

/** What a statement must not do to what a release has, and what does instead. */
const statementRules: Rules = [
  [
    any(String.raw`^CREATE (?:UNIQUE )?INDEX .*?\bON TABLE_NAME`),
    "builds an index while writes wait: make it a step `index`"
  ],
  [any(String.raw`^REINDEX\b(?!.*CONCURRENTLY)(?:.* )?TABLE_NAME`), "rebuilds indexes while writes wait"],
  [any(String.raw`^(?:CLUSTER|VACUUM FULL|VACUUM \[\]) TABLE_NAME`), "rewrites the table"],
  [any(String.raw`^LOCK (?:TABLE )?TABLE_NAME`), "locks the table"],
  [any(String.raw`^(?:UPDATE|MERGE INTO|DELETE FROM) TABLE_NAME`), inBatches],
  [any(String.raw`^WITH (?<table>\w+)`), inBatches],
  [any(String.raw`^(?<table>DO)\b`), "does what this rule cannot see: write the statements themselves"],
  [any(String.raw`^TRUNCATE (?:TABLE )?TABLE_NAME`), "deletes what the release before reads"],
  [any(String.raw`^INSERT INTO TABLE_NAME .*\bSELECT\b`), inBatches],
  [any(String.raw`^DROP (?:TABLE|VIEW|MATERIALIZED VIEW|TYPE|DOMAIN|FUNCTION|SCHEMA|SEQUENCE) TABLE_NAME`), laterDrop],
  [
    any(String.raw`^ALTER TYPE TABLE_NAME .*\b(?:ADD|DROP|ALTER) ATTRIBUTE\b`),
    "breaks the rows that the release before writes: make another type"
  ],
  [any(String.raw`^ALTER DOMAIN TABLE_NAME .*\bADD\b(?!.*NOT VALID)`), "reads all tables that have it"],
  [any(String.raw`^REFRESH MATERIALIZED VIEW TABLE_NAME`), "reads whole tables under a lock"]
]

const addColumn = String.raw`^ADD (?!CONSTRAINT\b|CHECK\b|FOREIGN\b|PRIMARY\b|UNIQUE\b|EXCLUDE\b)(?:COLUMN )?`

/** What one action of ALTER TABLE must not do to a table that a release has. */
const actionRules: Rules = [
  [/^RENAME (?!CONSTRAINT\b)/i, "renames what the release before uses: add the new one, and drop the old one later"],
  [/^DROP (?!CONSTRAINT\b)/i, laterDrop],
  [/^ALTER (?:COLUMN )?\w+ (?:SET DATA )?TYPE\b/i, "rewrites the table: add a column, and fill it in batches"],
  [/^ALTER (?:COLUMN )?\w+ SET NOT NULL/i, "reads the whole table: add a CHECK … NOT VALID, and validate it"],
  [new RegExp(String.raw`${addColumn}.*\bGENERATED\b`, "i"), "rewrites the table"],
  [
    new RegExp(
      String.raw`${addColumn}.*\bDEFAULT (?!(?:''|-?[\d.]+|true|false|NULL|now\[\]|CURRENT_TIMESTAMP)(?:::\w+(?:\[\])*)?(?: (?!\|\|)|$))`,
      "i"
    ),
    "rewrites the table, unless the default is a constant"
  ],
  [new RegExp(String.raw`${addColumn}(?!.*\bDEFAULT\b).*\bNOT NULL\b`, "i"), "fails where there are rows"],
  [
    new RegExp(String.raw`${addColumn}.*\b(?:PRIMARY KEY|UNIQUE|REFERENCES|CHECK)\b`, "i"),
    "reads the whole table: add the constraint NOT VALID"
  ],
  [
    /^ADD (?:CONSTRAINT \w+ )?(?:CHECK|FOREIGN KEY)\b(?!.*NOT VALID)/i,
    "reads the whole table: add it NOT VALID, and validate it in a later step"
  ],
  [
    /^ADD (?:CONSTRAINT \w+ )?(?:PRIMARY KEY|UNIQUE|EXCLUDE)\b(?!.*USING INDEX)/i,
    "builds an index while all wait: make it a step `uniqueIndex`, and then add it USING INDEX"
  ],
  [/^SET (?:TABLESPACE|LOGGED|UNLOGGED|ACCESS METHOD)\b/i, "rewrites the table"]
]

const alterTable = any(String.raw`^ALTER TABLE TABLE_NAME (?<actions>.*)$`)

const faultsOf = (statement: string): ReadonlyArray<readonly [table: string, fault: string]> => {
  const altered = alterTable.exec(statement)?.groups
  if (altered !== undefined) {
    const actions = (altered["actions"] ?? "").split(",").map((action) => action.trim())
    return actions.flatMap((action) =>
      actionRules.flatMap(([pattern, fault]) =>
        pattern.test(action) ? [[altered["table"] ?? "", fault] as const] : []
      )
    )
  }
  return statementRules.flatMap(([pattern, fault]) => {
    const table = pattern.exec(statement)?.groups?.["table"]
    return table === undefined ? [] : [[table, fault] as const]
  })
}

/** A constraint is validated under the locks of the statements before it in its transaction. */
const validatesAfterwards = (statements: ReadonlyArray<string>): ReadonlyArray<string> => {
  const at = statements.findIndex((statement) => /\bVALIDATE CONSTRAINT\b/i.test(statement))
  return at > 0 ? [`validates under the locks of what is before it: make it a step of its own: ${statements[at]}`] : []
}

const numbersOf = (version: string) => version.split(/[.-]/).slice(0, 3).map(Number)

/** Whether a version is another one or comes after it. */
const isFrom = (version: string, other: string): boolean => {
  const [one, two] = [numbersOf(version), numbersOf(other)]
  const at = one.findIndex((number, place) => number !== two[place])
  return at < 0 || (one[at] ?? 0) > (two[at] ?? 0)
}

/** Whether a step takes away what neither the release before nor this build uses. */
const isContraction = (step: Step, releaseBefore: string): boolean =>
  step._tag === "Script" && step.unusedSince !== undefined && isFrom(releaseBefore, step.unusedSince)

const created =
  /^CREATE (?:TABLE|TYPE|DOMAIN|(?:OR REPLACE )?VIEW|MATERIALIZED VIEW|(?:TEMPORARY|TEMP|UNLOGGED) TABLE) (?:public\.)?(\w+)/i

/** Why a migration cannot run while replicas of the release before serve; one line for each fault. */
export const migrationFaults = (migration: Migration, releaseBefore = ""): ReadonlyArray<string> => {
  const scripts = migration.map((step) => (step._tag === "Script" ? statementsOf(step.statements) : []))
  const contracted = new Set(scripts.filter((_, at) => isContraction(migration[at]!, releaseBefore)).flat())
  const own = new Set(scripts.flat().flatMap((statement) => created.exec(statement)?.[1] ?? []))
  const ofScripts = scripts
    .flat()
    .flatMap((statement) =>
      faultsOf(statement).flatMap(([table, fault]) =>
        own.has(table) || (fault === laterDrop && contracted.has(statement))
          ? []
          : [`${fault}: ${statement.slice(0, 100)}`]
      )
    )
  const ofBatches = migration.flatMap((step) =>
    step._tag === "Batches" && !/\bLIMIT \d+\b/i.test(step.change)
      ? [`a batch has no LIMIT: ${step.change.trim().slice(0, 100)}`]
      : []
  )
  return [...scripts.flatMap(validatesAfterwards), ...ofScripts, ...ofBatches]
}
