import * as path from "node:path"
import { defineConfig } from "vitest/config"

const unit = {
  setupFiles: ["test/support/assertions.ts"],
  // Loading the service takes longer than most files' tests; all that a service keeps is in its layers.
  isolate: false,
  testTimeout: 30_000,
  hookTimeout: 60_000,
  maxWorkers: 3,
  execArgv: [
    // A young generation that has to grow to this size first takes a tenth of the time.
    "--min-semi-space-size=64",
    "--max-semi-space-size=64",
    // What was compiled for the run before is taken from there.
    "--import",
    path.resolve(import.meta.dirname, "src/platform/runtime/compile-cache.ts")
  ],
  // Node loads the files as `npm start` does, which costs no transformation, and no indirection at each use of an import.
  experimental: { viteModuleRunner: false, nodeLoader: false }
}

export default defineConfig({
  test: {
    globalSetup: ["test/support/postgres.ts"],
    // Failures with what they logged, and a summary.
    reporters: ["minimal"],
    silent: "passed-only",
    projects: [
      {
        test: {
          ...unit,
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: ["test/system/**", "test/bench/**"]
        }
      },
      {
        test: {
          name: "system",
          include: ["test/system/**/*.test.ts"],
          testTimeout: 600_000,
          hookTimeout: 120_000,
          fileParallelism: false
        }
      }
    ]
  }
})
