import { chai } from "vitest"

// A misspelled assertion does not compile; the proxies that find it once more take a twentieth of a test's time.
chai.config.useProxy = false
