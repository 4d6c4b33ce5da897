import { type LookupAddress, type LookupAllOptions, promises } from "node:dns"
import { isIP } from "node:net"

/** What `dns.lookup` does when it is asked for all addresses. */
export type Resolve = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, addresses: Array<LookupAddress>) => void
) => void

interface Options {
  readonly servers?: ReadonlyArray<string>
  /** For the first try; the second one has twice the time. */
  readonly timeoutMillis?: number
}

/**
 * Resolves names that callers choose by DNS alone, asking the name servers of the system unless others are given. `dns.lookup`
 * has two threads for all names of the process, and a name server that never answers keeps each for ten seconds and more:
 * names of providers and of the database would wait behind those of a hostile caller.
 */
export const makeResolve =
  ({ servers, timeoutMillis = 2000 }: Options = {}): Resolve =>
  (hostname, options, callback) => {
    const given = isIP(hostname)
    if (given !== 0) return callback(null, [{ address: hostname, family: given }])
    // It reads the system's configuration when it is made, which may change.
    const resolver = new promises.Resolver({ timeout: timeoutMillis, tries: 2 })
    if (servers !== undefined) resolver.setServers(servers)
    const all = async (family: 4 | 6) => {
      const addresses = await (family === 4 ? resolver.resolve4(hostname) : resolver.resolve6(hostname))
      return addresses.map((address): LookupAddress => ({ address, family }))
    }
    void Promise.allSettled([all(4), all(6)]).then((answers) => {
      const addresses = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []))
      const [first] = answers.flatMap((answer) => (answer.status === "rejected" ? [answer.reason] : []))
      callback(addresses.length === 0 ? (first as NodeJS.ErrnoException) : null, addresses)
    })
  }
