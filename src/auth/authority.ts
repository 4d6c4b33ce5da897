import { Effect } from "effect"
import { type Capability, missing } from "../kernel/capability.ts"
import { CurrentPrincipal, Forbidden } from "./domain.ts"

/**
 * Nobody gives what it lacks: whatever makes, changes, rotates or re-keys an authority asks here, with every capability
 * that the authority has before and after.
 */
export const requireAuthority = (capabilities: ReadonlyArray<Capability>): Effect.Effect<void, Forbidden> =>
  Effect.flatMap(CurrentPrincipal, (principal) => {
    const lacking = missing(principal.capabilities, capabilities)
    return lacking.length === 0
      ? Effect.void
      : Effect.fail(
          new Forbidden({ missing: lacking, detail: `The caller cannot give what it lacks: ${lacking.join(", ")}` })
        )
  })
