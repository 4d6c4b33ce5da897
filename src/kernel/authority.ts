import { Effect } from "effect"
import { type Capability, missing } from "./capability.ts"
import { CurrentPrincipal, Forbidden } from "./principal.ts"

/**
 * No caller grants a capability that it lacks: whatever creates, changes, rotates or re-keys an authority is checked here,
 * with every capability that the authority has before and after. An agent grants nothing: what it created would outlive
 * its credential, and continue after the agent is suspended.
 */
export const requireAuthority = (capabilities: ReadonlyArray<Capability>): Effect.Effect<void, Forbidden> =>
  Effect.flatMap(CurrentPrincipal, (principal) => {
    if (principal.kind === "agent") {
      return Effect.fail(new Forbidden({ missing: [], detail: "An agent cannot create or change an authority." }))
    }
    const lacking = missing(principal.capabilities, capabilities)
    return lacking.length === 0
      ? Effect.void
      : Effect.fail(
          new Forbidden({
            missing: lacking,
            detail: `The caller cannot grant capabilities that it lacks: ${lacking.join(", ")}`
          })
        )
  })
