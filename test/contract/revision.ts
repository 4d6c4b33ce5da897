import { Effect } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import written from "../../migrations/functions/revision.json" with { type: "json" }
import { functionsOfBuild } from "../../src/platform/database/sql-functions.ts"
import { root } from "./manuals.ts"

// Builds are ordered by the revision of their functions, so that changed ones are of a later build.
const { checksum } = await Effect.runPromise(functionsOfBuild)
if (checksum !== written.checksum) {
  const revision = written.checksum === "" ? written.revision : written.revision + 1
  await fs.writeFile(
    path.join(root, "migrations/functions/revision.json"),
    `${JSON.stringify({ revision, checksum }, undefined, 2)}\n`
  )
}
