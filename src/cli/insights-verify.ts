import "../platform/runtime/json-parse.ts"
import { Effect } from "effect"
import { RollupsRepository } from "../insights/rollups/repository.ts"
import { runVerification } from "./verification.ts"

const maxShown = 50

/** `npm run insights:verify`: whether the ledger, the usage rows and the roll-ups have the same sums. */
const verify = Effect.gen(function* () {
  const { differences } = yield* RollupsRepository
  const found = yield* differences
  if (found.length === 0) {
    return { code: 0, text: "The roll-ups are the sums of the usage rows, and the usage rows those of the ledger." }
  }
  const lines = found
    .slice(0, maxShown)
    .map(
      ({ day, expected, found: other, tenantId, what }) =>
        `  tenant ${tenantId}, ${day}, ${what}: ${expected} and ${other}`
    )
  const title = `${found.length} ${found.length === 1 ? "sum differs" : "sums differ"}:`
  return { code: 1, text: [title, ...lines].join("\n") }
})

runVerification(verify, RollupsRepository.layer)
