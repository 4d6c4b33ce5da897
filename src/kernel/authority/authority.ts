import { DateTime, Effect } from "effect"
import { type Capability, missing } from "./capability.ts"
import { CurrentPrincipal, Forbidden } from "./principal.ts"

/**
 * No caller grants a capability that it lacks: whatever creates, changes, rotates or re-keys an authority is checked here,
 * with every capability that the authority has before and after. An agent grants nothing: what it created would outlive
 * its credential, and continue after the agent is suspended. A synthetic principal grants only to agents, which are then
 * synthetic, too: what acts by another authority would no longer be known as synthetic.
 */
export const requireAuthority = (
  capabilities: ReadonlyArray<Capability>,
  { toAgent = false }: { readonly toAgent?: boolean } = {}
): Effect.Effect<void, Forbidden> =>
  Effect.flatMap(CurrentPrincipal, (principal) => {
    if (principal.kind === "agent") return forbidden("An agent cannot create or change an authority.")
    if (principal.kind === "synthetic" && !toAgent) {
      return forbidden("A synthetic principal cannot create or change an authority, except for its own agents.")
    }
    const lacking = missing(principal.capabilities, capabilities)
    return lacking.length === 0
      ? Effect.void
      : forbidden(`The caller cannot grant capabilities that it lacks: ${lacking.join(", ")}`, lacking)
  })

/** A synthetic principal acts through the agents that it registered itself, and through no other. */
export const requireOwnAgent = ({ createdBy }: { readonly createdBy: string }): Effect.Effect<void, Forbidden> =>
  Effect.flatMap(CurrentPrincipal, ({ kind, name }) =>
    kind === "synthetic" && createdBy !== name
      ? forbidden("A synthetic principal acts through its own agents only.")
      : Effect.void
  )

/** When an authority ends, and the application that it belongs to; null where it has none. */
export interface Bounds {
  readonly expiresAt: DateTime.Utc | null
  readonly applicationId: number | null
}

/**
 * What a caller creates, changes or rotates ends no later than the caller's own authority, and belongs to the caller's
 * application. A bound that is left out does not matter to the change.
 */
export const requireBounds = ({ applicationId, expiresAt }: Partial<Bounds>): Effect.Effect<void, Forbidden> =>
  Effect.flatMap(CurrentPrincipal, (principal) => {
    if (principal.expiresAt !== undefined && expiresAt !== undefined) {
      if (expiresAt === null || DateTime.isGreaterThan(expiresAt, principal.expiresAt)) {
        return forbidden(
          `The caller's authority ends at ${DateTime.formatIso(principal.expiresAt)}; it cannot create or change what ends later.`
        )
      }
    }
    return principal.applicationId === undefined ||
      applicationId === undefined ||
      applicationId === principal.applicationId
      ? Effect.void
      : forbidden(
          `The caller belongs to application ${principal.applicationId}; it cannot create or change what does not.`
        )
  })

/** The bounds of what a caller creates where the request has no say in them: the caller's own. */
export const callerBounds: Effect.Effect<Bounds> = Effect.map(CurrentPrincipal, ({ applicationId, expiresAt }) => ({
  applicationId: applicationId ?? null,
  expiresAt: expiresAt ?? null
}))

/** The earlier of a moment and the end of the caller's authority. */
export const untilCallerEnds = (moment: DateTime.Utc): Effect.Effect<DateTime.Utc> =>
  Effect.map(CurrentPrincipal, ({ expiresAt }) => (expiresAt === undefined ? moment : DateTime.min(moment, expiresAt)))

/** Whether a patch only suspends or ends; a caller with the authority may do that despite its own bounds. */
export const onlyStops = (patch: { readonly status?: string | undefined }): boolean =>
  patch.status !== undefined && patch.status !== "active" && Object.keys(patch).length === 1

const forbidden = (detail: string, lacking: ReadonlyArray<Capability> = []) =>
  Effect.fail(new Forbidden({ missing: lacking, detail }))
