import * as fs from "node:fs"
import * as path from "node:path"
import { clientsMarkdown } from "../support/client-features.ts"
import { familyReference, gatewayReference } from "./gateway-reference.ts"
import { manuals, root } from "./manuals.ts"
import { settingsMarkdown } from "./settings-reference.ts"
import { conventionsTable } from "./telemetry-reference.ts"
import { usageExportColumns, usageExportTable } from "./usage-export-reference.ts"
import { vendorReference } from "./vendor-reference.ts"

/** The tables of the documentation that are made from the source, by the name of their markers. */
export const tables: Readonly<Record<string, string>> = {
  settings: settingsMarkdown,
  "gateway-configuration": gatewayReference,
  "gateway-families": familyReference,
  "gateway-clients": clientsMarkdown,
  "gateway-telemetry": conventionsTable,
  "gateway-vendors": vendorReference,
  "usage-export-columns": usageExportColumns,
  "usage-export-table": usageExportTable
}

const within = (name: string) => new RegExp(`(<!-- ${name} -->\\n)[\\s\\S]*(<!-- /${name} -->)`)

/** The table of a name as the documentation has it; exactly one manual does. */
export const tableIn = (name: string): string => {
  const found = manuals.flatMap(({ text }) => within(name).exec(text)?.[0].split("\n").slice(1, -1).join("\n") ?? [])
  if (found.length !== 1) throw new Error(`${found.length} manuals have the table ${name}; expected one`)
  return found[0]!
}

if (import.meta.main) {
  for (const { file, text } of manuals) {
    const written = Object.entries(tables).reduce(
      (changed, [name, table]) =>
        changed.replace(within(name), (_, open: string, close: string) => `${open}\n${table}\n\n${close}`),
      text
    )
    if (written !== text) fs.writeFileSync(path.join(root, file), written)
  }
}
