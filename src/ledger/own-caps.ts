import { Effect } from "effect"
import { CurrentPrincipal, Forbidden } from "../auth/domain.ts"
import { type StoredCap } from "./cap-repository.ts"

/** How much a mode lets through beyond the limit, least first. */
const modes: ReadonlyArray<StoredCap["mode"]> = ["hard", "approval", "soft"]

/** Whether more may be spent under a cap than before. */
export const isLooser = (before: StoredCap, after: StoredCap): boolean =>
  after.limitAmount > before.limitAmount ||
  modes.indexOf(after.mode) > modes.indexOf(before.mode) ||
  (before.status === "active" && after.status === "paused")

/**
 * Nobody gives what it lacks: a cap that an agent spends under binds nobody else as it binds that agent, so the agent itself
 * never loosens it, whatever its scopes. A cap governs every agent of its tenant unless it names another one.
 */
export const requireUngoverned = (cap: StoredCap): Effect.Effect<void, Forbidden> =>
  Effect.flatMap(CurrentPrincipal, ({ kind, name }) => {
    const { agentId } = cap.scope
    const isOfAnother = agentId !== undefined && agentId !== "each" && name !== `agent:${agentId}`
    return kind !== "agent" || isOfAnother
      ? Effect.void
      : Effect.fail(new Forbidden({ missing: [], detail: "An agent loosens no cap that governs it." }))
  })
