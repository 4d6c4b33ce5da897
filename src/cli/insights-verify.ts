import { Effect } from "effect"
import { RollupsRepository } from "../insights/rollups/repository.ts"
import { runVerification } from "./verification.ts"

const maxShown = 50

const verify = Effect.gen(function* () {
  const found = yield* (yield* RollupsRepository).differences
  if (found.length === 0) {
    return {
      isWell: true,
      text: "The roll-ups are the sums of the usage rows, and the usage rows those of the ledger."
    }
  }
  const lines = found
    .slice(0, maxShown)
    .map(
      ({ day, expected, found: other, tenantId, what }) =>
        `  tenant ${tenantId}, ${day}, ${what}: ${expected} and ${other}`
    )
  const sums = found.length === 1 ? "sum differs" : "sums differ"
  return { isWell: false, text: [`${found.length} ${sums}:`, ...lines].join("\n") }
})

/** `npm run insights:verify`: whether the ledger, the usage rows and the roll-ups have the same sums. */
runVerification(verify, RollupsRepository.layer)
