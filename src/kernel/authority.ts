import { Effect } from "effect"
import { type Capability, missing } from "./capability.ts"
import { CurrentPrincipal, Forbidden } from "./principal.ts"

/**
 * Nobody gives what it lacks: whatever makes, changes, rotates or re-keys an authority asks here, with every capability
 * that the authority has before and after. An agent gives nothing at all: what it made would outlive its credential, and
 * go on when the agent is stopped.
 */
export const requireAuthority = (capabilities: ReadonlyArray<Capability>): Effect.Effect<void, Forbidden> =>
  Effect.flatMap(CurrentPrincipal, (principal) => {
    if (principal.kind === "agent") {
      return Effect.fail(new Forbidden({ missing: [], detail: "An agent makes and changes no authority." }))
    }
    const lacking = missing(principal.capabilities, capabilities)
    return lacking.length === 0
      ? Effect.void
      : Effect.fail(
          new Forbidden({ missing: lacking, detail: `The caller cannot give what it lacks: ${lacking.join(", ")}` })
        )
  })
