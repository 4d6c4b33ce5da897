import { Effect } from "effect"
import { LedgerStore } from "./repository.ts"

const maxShown = 50

/** Whether every counter is the fold of the entries and of the open reservations, and what is wrong. */
export const verifyCounters = Effect.gen(function* () {
  const found = yield* (yield* LedgerStore).drift
  if (found.length === 0) {
    return { isWell: true, text: "Every counter is the sum of its entries and of its open reservations." }
  }
  const counters = found.length === 1 ? "counter is" : "counters are"
  const lines = found.slice(0, maxShown).map(({ capId, counterKey, reserved, reservedFold, spent, spentFold }) => {
    const key = counterKey === "" ? "" : ` ${counterKey}`
    return `  cap ${capId}${key}: spent ${spent}, entries ${spentFold}; reserved ${reserved}, open ${reservedFold}`
  })
  return { isWell: false, text: [`${found.length} ${counters} NOT what was written:`, ...lines].join("\n") }
})
