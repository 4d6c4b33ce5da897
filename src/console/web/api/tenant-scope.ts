import { useSyncExternalStore } from "react"
import ofTenants from "virtual:of-tenants"
import { type Operation } from "./operations.ts"

const key = "tenant"
const changes = new EventTarget()
let current = sessionStorage.getItem(key) ?? undefined

/** The tenant that everything in this window is about; undefined for all of them. */
export const tenantScope = (): string | undefined => current

/** Looks at one tenant from now on, or at all of them; what was read is read again by the caller. */
export const setTenantScope = (id: string | undefined): void => {
  current = id
  if (id === undefined) sessionStorage.removeItem(key)
  else sessionStorage.setItem(key, id)
  changes.dispatchEvent(new Event("changed"))
}

const subscribe = (onChange: () => void) => {
  changes.addEventListener("changed", onChange)
  return () => changes.removeEventListener("changed", onChange)
}

export const useTenantScope = (): string | undefined => useSyncExternalStore(subscribe, tenantScope)

/** The query of a call, of the tenant that is looked at where the operation can tell tenants apart and the query names none. */
export const scoped = (name: Operation, query: object | undefined): object =>
  current === undefined || (query !== undefined && "tenantId" in query) || !ofTenants.includes(name)
    ? (query ?? {})
    : { ...query, tenantId: current }
