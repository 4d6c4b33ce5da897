import { type Column, columns, schemaVersion } from "../../src/insights/usage-export/domain.ts"

/** The columns of exported files, for the manual. */
export const usageExportColumns = [
  "| Column | Type | May be null | What it is |",
  "| --- | --- | --- | --- |",
  ...columns.map(
    ({ description, isRequired, name, type }: Column) =>
      `| \`${name}\` | ${type} | ${isRequired ? "no" : "yes"} | ${description} |`
  )
].join("\n")

const types: Readonly<Record<Column["type"], string>> = {
  text: "String",
  integer: "Int64",
  boolean: "Bool",
  timestamp: "DateTime64(3, 'UTC')",
  json: "String"
}

/** A table of ClickHouse that has them; an object is kept as its text. */
export const usageExportTable = [
  "```sql",
  `CREATE TABLE usage_${schemaVersion} (`,
  columns
    .map(({ isRequired, name, type }: Column) => `  ${name} ${isRequired ? types[type] : `Nullable(${types[type]})`}`)
    .join(",\n"),
  ") ENGINE = ReplacingMergeTree PARTITION BY toYYYYMM(occurredAt) ORDER BY (tenantId, occurredAt, rowId);",
  "```"
].join("\n")
