import { layer } from "@effect/vitest"
import { guards } from "../../support/ledger-guards.ts"
import { ledgerLayer } from "../../support/ledger.ts"

layer(ledgerLayer(), { timeout: "60 seconds" })("the ledger", (it) => {
  for (const [what, guard] of Object.entries(guards)) it.effect(what, () => guard)
})
