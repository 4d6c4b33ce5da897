import { Effect } from "effect"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { isPrivateHost } from "../../platform/outbound/guarded-dispatcher.ts"

/** Rejects the address of a target to which nothing could be delivered; names are resolved when it is connected to. */
export const requireTargetAddress = (
  text: string,
  member: string,
  allowPrivate: boolean
): Effect.Effect<void, ValidationFailed> => {
  const fault = faultOf(text, allowPrivate)
  return fault === undefined
    ? Effect.void
    : Effect.fail(
        new ValidationFailed({
          detail: `payload.${member}: ${fault}`,
          errors: [{ path: ["payload", member], message: fault }]
        })
      )
}

const faultOf = (text: string, allowPrivate: boolean): string | undefined => {
  const url = URL.parse(text)
  if (url === null || !/^https?:$/.test(url.protocol)) return "Expected an http or https URL"
  if (url.username !== "" || url.password !== "" || url.hash !== "") return "Expected a URL without user and fragment"
  return !allowPrivate && isPrivateHost(url.hostname) ? "Expected an address of the public internet" : undefined
}
