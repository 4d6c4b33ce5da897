import { DateTime, Effect } from "effect"
import { type Capability, missing } from "./capability.ts"
import { CurrentPrincipal, Forbidden } from "./principal.ts"

/**
 * No caller grants a capability that it lacks: whatever creates, changes, rotates or re-keys an authority is checked here,
 * with every capability that the authority has before and after. An agent grants nothing: what it created would outlive
 * its credential, and continue after the agent is suspended.
 */
export const requireAuthority = (capabilities: ReadonlyArray<Capability>): Effect.Effect<void, Forbidden> =>
  Effect.flatMap(CurrentPrincipal, (principal) => {
    if (principal.kind === "agent") return forbidden("An agent cannot create or change an authority.")
    const lacking = missing(principal.capabilities, capabilities)
    return lacking.length === 0
      ? Effect.void
      : forbidden(`The caller cannot grant capabilities that it lacks: ${lacking.join(", ")}`, lacking)
  })

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
