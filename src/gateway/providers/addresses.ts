import { Result } from "effect"
import { IpNetwork, NetAddress } from "effect/net"

/** Networks that no address of a caller's choice may lead into: IANA's registries of what is not globally reachable. */
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

/** Of IPv6 only what is handed out for global unicast is reached, but for what carries an IPv4 address or documentation. */
const globalUnicast = IpNetwork.fromStringUnsafe("2000::/3")
const refusedWithin = ["2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"].map(IpNetwork.fromStringUnsafe)

/** Whether an IP address is one of the public internet. */
export const isPublic = (text: string): boolean => {
  const parsed = NetAddress.ipFromString(text.replace(/%.*$/, ""))
  if (Result.isFailure(parsed)) return false
  const address = parsed.success
  if (NetAddress.isIpv4Address(address)) return !refused.some((network) => IpNetwork.contains(network, address))
  return (
    IpNetwork.contains(globalUnicast, address) && !refusedWithin.some((network) => IpNetwork.contains(network, address))
  )
}
