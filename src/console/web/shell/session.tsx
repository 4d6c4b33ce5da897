import { queryOptions, useQuery } from "@tanstack/react-query"
import { createContext, useContext } from "react"
import installationOnly from "virtual:installation-only"
import { call, Failure } from "../api/client.ts"
import { queries } from "../api/hooks.ts"
import { type Answer } from "../api/operations.ts"
import { setTenantScope } from "../api/tenant-scope.ts"

/** Who is signed in. */
export type Caller = Answer<"auth.me">

export const sessionKey = ["session"] as const

// A page that came to a browser without a session has nothing to ask for.
if (document.documentElement.dataset.session === "none") queries.setQueryData(sessionKey, null)

const session = queryOptions({
  queryKey: sessionKey,
  queryFn: ({ signal }): Promise<Caller | null> =>
    call("auth.me", {}, signal).catch((cause: unknown) => {
      if (cause instanceof Failure && cause.status === 401) return null
      throw cause
    }),
  // Who is signed out stays so until a sign-in.
  staleTime: ({ state }) => (state.data === null ? Infinity : 60_000)
})

/** The caller; null without a sign-in. */
export const useSession = () => useQuery(session)

/** Forgets the caller and everything that was read for it. */
export const forgetSession = (): void => {
  setTenantScope(undefined)
  queries.setQueryData(sessionKey, null)
  queries.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionKey[0] })
}

/** Ends the session, here also where the service cannot be reached. */
export const signOut = async (): Promise<void> => {
  await call("auth.logout", {}).catch(() => undefined)
  forgetSession()
}

/** Reads who is signed in again. */
export const renewSession = () => queries.fetchQuery({ ...session, staleTime: 0 })

const Current = createContext<Caller | null>(null)
export const CallerProvider = Current.Provider

export const useCaller = (): Caller => {
  const caller = useContext(Current)
  if (caller === null) throw new Error("A page needs a caller.")
  return caller
}

const parts = (capability: string) => capability.split(":")

/** Whether a capability that is held, which may have stars, covers another. */
export const covers = (held: string, wanted: string): boolean => {
  const [resource, action] = parts(wanted)
  const [heldResource, heldAction] = parts(held)
  return (heldResource === "*" || heldResource === resource) && (heldAction === "*" || heldAction === action)
}

/** Whether the caller has a capability, and so may give it. */
export const useHas = (): ((capability: string) => boolean) => {
  const { capabilities } = useCaller()
  return (capability) => capabilities.some((held) => covers(held, capability))
}

/** Why the caller may not do what needs a capability; undefined where it may. */
export const useRefusal = (): ((capability: string) => "lacking" | "installation-only" | undefined) => {
  const has = useHas()
  const { tenant } = useCaller()
  return (capability) =>
    tenant !== null && installationOnly.includes(capability)
      ? "installation-only"
      : has(capability)
        ? undefined
        : "lacking"
}

/** Whether the caller may do what needs a capability. */
export const useCan = (): ((capability: string) => boolean) => {
  const refusalOf = useRefusal()
  return (capability) => refusalOf(capability) === undefined
}
