import "../platform/runtime/json-parse.ts"
import { LedgerStore } from "../budgets/ledger/repository.ts"
import { verifyCounters } from "../budgets/ledger/verification.ts"
import { runVerification } from "./verification.ts"

/** `npm run ledger:verify`: whether the counters are what was written. */
runVerification(verifyCounters, LedgerStore.layer)
