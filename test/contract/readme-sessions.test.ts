import { assert, it } from "@effect/vitest"
import { manuals } from "./manuals.ts"
import { checkSessions, long, notRun } from "./readme-sessions.ts"

it("every block of shell that no test runs is one that it cannot run", () => {
  const blocks = manuals.flatMap((manual) => manual.blocks).filter(({ language }) => language === "sh")
  for (const [reason, pattern] of Object.entries(notRun)) {
    assert.isTrue(
      blocks.some(({ text }) => pattern.test(text)),
      `No block ${reason}`
    )
  }
})

// `test/system/readme-sessions.test.ts` runs the others.
checkSessions(({ file }) => !long.includes(file))
