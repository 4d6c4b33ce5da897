import { assert, it } from "@effect/vitest"
import { networkOf } from "../../../src/platform/http/request.ts"

it.each([
  ["203.0.113.7", "203.0.113.7"],
  ["2001:db8:1:2::1", "2001:db8:1:2::/64"],
  ["2001:0DB8:1:2:a:b:c:d", "2001:db8:1:2::/64"],
  ["2001:db8::5", "2001:db8:0:0::/64"],
  ["fe80::1%eth0", "fe80:0:0:0::/64"],
  ["::1", "0:0:0:0::/64"],
  ["unknown", "unknown"]
])("%s counts as %s", (address, network) => {
  assert.strictEqual(networkOf(address), network)
})
