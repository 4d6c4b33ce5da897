import { Effect } from "effect"
import { LedgerStore } from "./repository.ts"

const maxShown = 50

/** Whether every counter is the fold of the entries and of the open reservations, as an exit code and its explanation. */
export const verifyCounters = Effect.gen(function* () {
  const found = yield* (yield* LedgerStore).drift
  if (found.length === 0) {
    return { code: 0, text: "Every counter is the sum of its entries and of its open reservations." }
  }
  const counters = found.length === 1 ? "counter is" : "counters are"
  const lines = found.slice(0, maxShown).map(({ capId, counterKey, reserved, reservedFold, spent, spentFold }) => {
    const key = counterKey === "" ? "" : ` ${counterKey}`
    return `  cap ${capId}${key}: spent ${spent}, entries ${spentFold}; reserved ${reserved}, open ${reservedFold}`
  })
  return { code: 1, text: [`${found.length} ${counters} NOT what was written:`, ...lines].join("\n") }
})
