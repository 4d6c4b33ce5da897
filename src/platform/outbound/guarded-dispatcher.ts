import * as NodeHttpClient from "@effect/platform-node/NodeHttpClient"
import { Effect } from "effect"
import { isIP, type LookupFunction } from "node:net"
import { isPublic } from "./addresses.ts"
import { makeResolve, type Resolve } from "./name-resolution.ts"

/** The code of the error of a connection to an address that is not public. */
export const addressRefused = "ERR_ADDRESS_REFUSED"

export const refusal = () => Object.assign(new Error("Not a public address"), { code: addressRefused })

/** Resolves names to public addresses only. It runs for each connection, so a later DNS answer cannot bypass the check. */
export const publicLookup =
  (resolve: Resolve): LookupFunction =>
  (hostname, options, callback) => {
    resolve(hostname, { ...options, all: true }, (error, addresses) => {
      const [first] = addresses ?? []
      if (error !== null || first === undefined) return callback(error ?? refusal(), "", 0)
      if (!addresses.every(({ address }) => isPublic(address))) return callback(refusal(), "", 0)
      if (options.all === true) callback(null, addresses)
      else callback(null, first.address, first.family)
    })
  }

/** Whether the host of a URL is not public whatever a name server says: a private address, or the name of this machine. */
export const isPrivateHost = (hostname: string): boolean => {
  const host = hostname.replace(/^\[|\]$/g, "").replace(/\.$/, "")
  return isIP(host) === 0 ? /^(?:.*\.)?localhost$/i.test(host) : !isPublic(host)
}

const loadUndici = Effect.promise(() => import("@effect/platform-node/Undici"))

/**
 * A pool of connections for addresses that callers name. Every connection is checked, by the addresses that its host resolves
 * to then, and made to one of those; a host that is an IP address is checked as it is.
 */
export const makeGuardedDispatcher = Effect.fnUntraced(function* (options: {
  readonly connections: number
  readonly connectTimeoutMillis: number
  readonly resolve?: Resolve
}) {
  const { buildConnector } = yield* loadUndici
  const connect = buildConnector({
    timeout: options.connectTimeoutMillis,
    lookup: publicLookup(options.resolve ?? makeResolve())
  })
  return yield* NodeHttpClient.makeDispatcherOptions({
    connections: options.connections,
    connect: (target, callback) =>
      isPrivateHost(target.hostname) ? callback(refusal(), null) : connect(target, callback)
  })
})
