import { SecureRandom } from "effect/crypto"
import { loopbackProvider } from "../../src/gateway/configuration/gateway-snapshot.ts"
import { makeLoopback } from "../../src/sandbox/loopback/loopback.ts"

/** The provider that needs no account, whose ids come again in every run. */
export const repeatableLoopback = () => {
  let drawn = 0
  return makeLoopback(SecureRandom.make((size) => new Uint8Array(size).fill(++drawn)))
}

/** The same as a gateway runs it. */
export const runningLoopback = loopbackProvider(repeatableLoopback())
