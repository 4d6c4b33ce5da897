import { Layer } from "effect"
import { SecureRandom } from "effect/crypto"

const poolBytes = 8192
const mostPooled = 64
let pool: Uint8Array = new Uint8Array(0)
let next = 0

/** Random bytes, drawn by the pool: a call to the system for every id costs more than the id. Each byte is given once. */
export const randomBytes = (size: number): Uint8Array => {
  if (size > mostPooled) return SecureRandom.randomBytesUnsafe(size)
  if (next + size > pool.length) {
    pool = SecureRandom.randomBytesUnsafe(poolBytes)
    next = 0
  }
  const bytes = pool.slice(next, next + size)
  pool.fill(0, next, (next += size))
  return bytes
}

export const SecureRandomLayer = Layer.succeed(SecureRandom.SecureRandom, SecureRandom.make(randomBytes))
