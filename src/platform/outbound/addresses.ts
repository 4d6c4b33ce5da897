import { Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"

/** Networks that a caller's address may not lead to: IANA's registries of addresses that are not globally reachable. */
const refused = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4"
].map(IpNetwork.fromStringUnsafe)

/** In IPv6 only global unicast is allowed, except for ranges that embed an IPv4 address or are for documentation. */
const globalUnicast = IpNetwork.fromStringUnsafe("2000::/3")
const refusedWithin = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"].map(IpNetwork.fromStringUnsafe)

/** Whether an IP address is public. */
export const isPublic = (text: string): boolean => {
  const parsed = NetAddress.ipFromString(text.replace(/%.*$/, ""))
  if (Result.isFailure(parsed)) return false
  const address = parsed.success
  if (NetAddress.isIpv4Address(address)) return !refused.some((network) => IpNetwork.contains(network, address))
  return (
    IpNetwork.contains(globalUnicast, address) && !refusedWithin.some((network) => IpNetwork.contains(network, address))
  )
}
