import { defineConfig } from "vitest/config"

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: ["test/system/**", "test/bench/**"],
          globalSetup: ["test/support/postgres.ts"],
          testTimeout: 30_000,
          hookTimeout: 60_000,
          maxWorkers: 2
        }
      },
      {
        test: {
          name: "system",
          include: ["test/system/**/*.test.ts"],
          globalSetup: ["test/support/postgres.ts"],
          testTimeout: 600_000,
          hookTimeout: 120_000,
          fileParallelism: false
        }
      }
    ]
  }
})
