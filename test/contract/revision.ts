import { Effect } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import written from "../../migrations/functions/revision.json" with { type: "json" }
import { requiredSchema } from "../../src/platform/database/migrations.ts"
import { serviceVersion } from "../../src/platform/runtime/version.ts"
import { root } from "./manuals.ts"
import { functionHeaders } from "./released-functions.ts"

const write = (file: string, value: object) =>
  fs.writeFileSync(path.join(root, "migrations", file), `${JSON.stringify(value, undefined, 2)}\n`)

// Builds are ordered by the revision of their functions, so that changed ones are of a later build.
const { functions, migration } = await Effect.runPromise(requiredSchema)
const revision = functions.checksum === written.checksum ? written.revision : written.revision + 1
write("functions/revision.json", { revision, checksum: functions.checksum })
// What the release before the next one needs, and what its replicas call.
if (process.argv.includes("--released")) {
  write("released.json", { version: serviceVersion, migration, revision, functions: functionHeaders() })
}
