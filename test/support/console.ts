import { execFileSync } from "node:child_process"
import * as path from "node:path"

/** Builds the console that the service serves, unless it is there. */
export default () => {
  const build = path.resolve(import.meta.dirname, "../../src/console/build.ts")
  execFileSync(process.execPath, [build, "--if-stale"], { stdio: "inherit" })
}
