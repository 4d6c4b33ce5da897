import { Effect } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import written from "../../migrations/functions/revision.json" with { type: "json" }
import { functionsOfBuild } from "../../src/platform/database/sql-functions.ts"
import { root } from "./manuals.ts"
import { functionHeaders, releasedFunctions } from "./released-functions.ts"

const write = (file: string, value: object) =>
  fs.writeFileSync(path.join(root, "migrations/functions", file), `${JSON.stringify(value, undefined, 2)}\n`)

// Builds are ordered by the revision of their functions, so that changed ones are of a later build.
const { checksum } = await Effect.runPromise(functionsOfBuild)
if (checksum !== written.checksum) {
  write("revision.json", { revision: written.checksum === "" ? written.revision : written.revision + 1, checksum })
}
// What replicas of a release call, for the rules of the next one.
if (process.argv.includes("--released")) write(releasedFunctions, functionHeaders())
