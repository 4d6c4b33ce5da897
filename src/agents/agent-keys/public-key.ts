import type * as jose from "jose"
import * as crypto from "node:crypto"
import { type KeyAlgorithm } from "./domain.ts"

const leastModulusBits = 2048
const maxModulusBits = 8192
// Each bit of it is work at every verification, and more bits than these make no key stronger.
const maxExponent = 2n ** 32n - 1n
const block = /^\s*-----BEGIN PUBLIC KEY-----\r?\n((?:[A-Za-z0-9+/=]{1,76}\r?\n)+)-----END PUBLIC KEY-----\s*$/

/** A public key that may be used, or why not. */
export type ReadKey =
  | { readonly pem: string; readonly jwk: jose.JWK; readonly fault?: undefined }
  | { readonly fault: string }

const refused = (fault: string): ReadKey => ({ fault })

const faultOfKind = (key: crypto.KeyObject, algorithm: KeyAlgorithm): string | undefined => {
  const kind = key.asymmetricKeyType
  const details = key.asymmetricKeyDetails
  switch (algorithm) {
    case "ES256":
      return kind === "ec" && details?.namedCurve === "prime256v1" ? undefined : "ES256 takes a key on P-256."
    case "EdDSA":
      return kind === "ed25519" ? undefined : "EdDSA takes an Ed25519 key."
    case "PS256":
    case "RS256": {
      if (kind !== "rsa") return `${algorithm} takes an RSA key.`
      const bits = details?.modulusLength ?? 0
      if (bits < leastModulusBits || bits > maxModulusBits) {
        return `The modulus has ${bits} bits; ${leastModulusBits} to ${maxModulusBits} are taken.`
      }
      const exponent = details?.publicExponent ?? 0n
      if (exponent < 65_537n) return "The public exponent is below 65,537."
      return exponent <= maxExponent ? undefined : "The public exponent has more than 32 bits."
    }
  }
}

/** Reads one SPKI block in PEM for one algorithm; nothing else that Node would also take for a key. */
export const readPublicKey = (pem: string, algorithm: KeyAlgorithm): ReadKey => {
  if (/PRIVATE/.test(pem)) return refused("This is a private key; keep it, and send the public one.")
  const base64 = block.exec(pem)?.[1]?.replaceAll(/\s/g, "")
  if (base64 === undefined) return refused("Expected one block of BEGIN PUBLIC KEY (SPKI), and nothing beside it.")
  const der = Buffer.from(base64, "base64")
  try {
    const key = crypto.createPublicKey({ key: der, format: "der", type: "spki" })
    if (!key.export({ format: "der", type: "spki" }).equals(der))
      return refused("The key is not in its canonical form.")
    const fault = faultOfKind(key, algorithm)
    return fault === undefined
      ? { pem: key.export({ format: "pem", type: "spki" }).toString(), jwk: key.export({ format: "jwk" }) }
      : refused(fault)
  } catch {
    return refused("The block holds no public key.")
  }
}
