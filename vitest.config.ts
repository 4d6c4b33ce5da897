import * as path from "node:path"
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

const longest = [
  "contract/properties",
  "console/pages",
  "contract/audit",
  "contract/readme-sessions",
  "budgets/plans/properties",
  "configuration/schemas",
  "contract/access",
  "configuration/watch"
]

const place = ({ moduleId }: TestSpecification) => {
  const index = longest.findIndex((name) => moduleId.endsWith(`${name}.test.ts`))
  return index === -1 ? longest.length : index
}

/** Begins with the files that take longest, since a worker that gets one last keeps the others waiting. */
class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>) {
    // oxlint-disable-next-line unicorn/no-array-sort -- not of an array
    const sorted = await super.sort(files)
    return sorted.toSorted((left, right) => place(left) - place(right))
  }
}

const unit = {
  setupFiles: ["src/platform/runtime/json-parse.ts", "test/support/assertions.ts"],
  // Loading the service takes longer than most files' tests; all that a service keeps is in its layers.
  isolate: false,
  testTimeout: 30_000,
  hookTimeout: 60_000,
  // What a session reads and plans first costs more than most tests do with it.
  provide: { maxConnections: "4" },
  // A third keeps both cores at work while the others wait for PostgreSQL or a browser; a fourth gains nothing.
  maxWorkers: 3,
  execArgv: [
    // Until the heap has this size, what lives is not looked through: a tenth less processor time.
    "--initial-heap-size=2000",
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
    globalSetup: ["test/support/console.ts", "test/support/postgres.ts"],
    // Failures with what they logged, and a summary.
    reporters: ["minimal"],
    silent: "passed-only",
    // Snapshots are written by `-u` alone; one that is missing fails.
    update: "none",
    sequence: { sequencer: LongestFirst },
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
          setupFiles: unit.setupFiles,
          provide: unit.provide,
          include: ["test/system/**/*.test.ts"],
          testTimeout: 600_000,
          hookTimeout: 120_000,
          fileParallelism: false
        }
      }
    ]
  }
})
