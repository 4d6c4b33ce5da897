import * as fs from "node:fs"
import * as path from "node:path"
import { root } from "./manuals.ts"

const directory = path.join(root, "migrations/functions")

/** What callers of a function rely on: its arguments and its result. */
export const headerOf = (text: string): string =>
  /^\s*CREATE OR REPLACE FUNCTION ([^]*?)\s+LANGUAGE /m.exec(text)?.[1]?.replaceAll(/\s+/g, " ") ?? ""

/** The headers of all functions, each by its name. */
export const functionHeaders = (): Readonly<Record<string, string>> =>
  Object.fromEntries(
    fs
      .readdirSync(directory)
      .filter((file) => file.endsWith(".sql"))
      .toSorted()
      .map((file) => [file.replace(/\.sql$/, ""), headerOf(fs.readFileSync(path.join(directory, file), "utf8"))])
  )

/** Functions that changed what callers of the release before rely on, under the name that these call. */
export const changedFunctions = (
  released: Readonly<Record<string, string>>,
  current: Readonly<Record<string, string>>
): ReadonlyArray<string> =>
  Object.entries(released).flatMap(([name, header]) =>
    current[name] === undefined || current[name] === header ? [] : [`${name}: ${header}; now ${current[name]}`]
  )
