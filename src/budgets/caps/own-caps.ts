import { Effect } from "effect"
import { CurrentPrincipal, Forbidden } from "../../kernel/principal.ts"
import { type StoredCap } from "../ledger/cap-repository.ts"

/** How much a mode lets through beyond the limit, least first. */
const modes: ReadonlyArray<StoredCap["mode"]> = ["hard", "approval", "soft"]

/** Whether more may be spent under a cap than before. */
export const isLooser = (before: StoredCap, after: StoredCap): boolean =>
  after.limitAmount > before.limitAmount ||
  modes.indexOf(after.mode) > modes.indexOf(before.mode) ||
  (before.status === "active" && after.status === "paused")

const forbidden = (detail: string) => Effect.fail(new Forbidden({ missing: [], detail }))

/** An agent acts for itself alone, whatever its scopes: it writes caps on itself, and binds nobody else with one. */
export const requireOwn = ({ agentId }: StoredCap["scope"]): Effect.Effect<void, Forbidden> =>
  Effect.flatMap(CurrentPrincipal, ({ kind, name }) =>
    kind !== "agent" || name === `agent:${agentId}` ? Effect.void : forbidden("An agent writes caps on itself alone.")
  )

/**
 * Nobody gives what it lacks: an agent loosens no cap, its own or another's, since two agents would loosen each other's.
 */
export const requireLoosening: Effect.Effect<void, Forbidden> = Effect.flatMap(CurrentPrincipal, ({ kind }) =>
  kind === "agent" ? forbidden("An agent loosens no cap.") : Effect.void
)
