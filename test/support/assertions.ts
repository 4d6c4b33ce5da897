import { chai } from "vitest"

// A misspelled assertion does not compile; the proxies that find it once more take a twentieth of a test's time.
chai.config.useProxy = false

declare global {
  // oxlint-disable-next-line typescript/no-namespace -- chai's types are one
  namespace Chai {
    // What is expected may be what the type of the actual one leaves out: a member that is null, a list that is empty.
    interface Assert {
      deepStrictEqual(actual: unknown, expected: unknown, message?: string): void
      deepInclude(haystack: unknown, needle: unknown, message?: string): void
    }
  }
}
