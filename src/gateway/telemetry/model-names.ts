import { type ModelTarget } from "../configuration/gateway-snapshot.ts"

const otherName = "_OTHER"
const maxUnlisted = 500

const answered = new Set<string>()

const keyOf = ({ model, provider }: ModelTarget): string => `${provider.id}/${model}`

/**
 * The model of a target as metrics, breakers and latencies name it. A caller chooses the name of one that is not listed: until
 * its provider has answered for it, and beyond 500 of them, it is `_OTHER`, so that invented names take no memory.
 */
export const boundedName = (target: ModelTarget): string =>
  target.isListed || answered.has(keyOf(target)) ? target.model : otherName

/** Remembers that a provider answered for a model. */
export const rememberAnswered = (target: ModelTarget): void => {
  if (!target.isListed && answered.size < maxUnlisted) answered.add(keyOf(target))
}
