import { Result } from "effect"
import * as crypto from "node:crypto"
import { type PublicJwk } from "./domain.ts"

/** A public key that was given to the service, with the time for which its certificates are valid. */
export interface GivenKey {
  readonly jwk: PublicJwk
  readonly algorithm: string
  readonly validFrom: Date | undefined
  readonly validUntil: Date | undefined
}

const curves: Readonly<Record<string, string>> = { prime256v1: "ES256", secp384r1: "ES384", secp521r1: "ES512" }
const rsaAlgorithms = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"]
const leastRsaBits = 2048
const mostCertificates = 10

const kinds = "Expected an Ed25519 key, an EC key on P-256, P-384 or P-521, or an RSA key of 2048 bits or more"
const forms = "Expected a public key as PEM, as a JWK, or as a chain of X.509 certificates in PEM"

/** The algorithms that a key signs with. */
const algorithmsOf = ({ asymmetricKeyDetails, asymmetricKeyType }: crypto.KeyObject): ReadonlyArray<string> => {
  if (asymmetricKeyType === "ed25519") return ["EdDSA"]
  if (asymmetricKeyType === "ec") {
    const algorithm = curves[asymmetricKeyDetails?.namedCurve ?? ""]
    return algorithm === undefined ? [] : [algorithm]
  }
  return asymmetricKeyType === "rsa" && (asymmetricKeyDetails?.modulusLength ?? 0) >= leastRsaBits ? rsaAlgorithms : []
}

const givenKey = (
  key: crypto.KeyObject,
  wanted: string | undefined,
  times: Pick<GivenKey, "validFrom" | "validUntil">
): Result.Result<GivenKey, string> => {
  const algorithms = algorithmsOf(key)
  const algorithm = wanted === undefined || (wanted === "Ed25519" && algorithms[0] === "EdDSA") ? algorithms[0] : wanted
  if (algorithm === undefined || algorithms.length === 0) return Result.fail(kinds)
  if (!algorithms.includes(algorithm)) return Result.fail(`Expected "alg" to be ${algorithms.join(", ")}`)
  return Result.succeed({ jwk: key.export({ format: "jwk" }) as PublicJwk, algorithm, ...times })
}

const certificatePattern = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g

/** The key of the first certificate. Each certificate must be issued by the next; the chain is valid while all are. */
const fromCertificates = (pem: string, now: Date): Result.Result<GivenKey, string> => {
  const chain = (pem.match(certificatePattern) ?? []).map((one) => new crypto.X509Certificate(one))
  const [leaf] = chain
  if (leaf === undefined || chain.length > mostCertificates) {
    return Result.fail(`Expected 1 to ${mostCertificates} certificates`)
  }
  for (const [index, issuer] of chain.slice(1).entries()) {
    const issued = chain[index]
    if (!issued?.checkIssued(issuer) || !issued.verify(issuer.publicKey) || !issuer.ca) {
      return Result.fail(
        `Expected certificate ${index + 2} to be of the authority that issued certificate ${index + 1}`
      )
    }
  }
  const validFrom = new Date(Math.max(...chain.map((one) => one.validFromDate.getTime())))
  const validUntil = new Date(Math.min(...chain.map((one) => one.validToDate.getTime())))
  if (validUntil <= now)
    return Result.fail(`Expected certificates that are valid; one ended at ${validUntil.toISOString()}`)
  return givenKey(leaf.publicKey, undefined, { validFrom, validUntil })
}

const always = { validFrom: undefined, validUntil: undefined }

/** Reads a public key as PEM, as a JWK, or from a chain of certificates; or what is wrong with it. */
export const readPublicKey = (
  given: string | Readonly<Record<string, unknown>>,
  now: Date
): Result.Result<GivenKey, string> => {
  if (typeof given === "string" ? given.includes("PRIVATE KEY") : "d" in given || "k" in given) {
    return Result.fail("Expected a public key; this one is private, and should be replaced now that it was sent")
  }
  try {
    if (typeof given !== "string") {
      const wanted = typeof given.alg === "string" ? given.alg : undefined
      return givenKey(crypto.createPublicKey({ key: given as JsonWebKey, format: "jwk" }), wanted, always)
    }
    if (given.includes("BEGIN CERTIFICATE")) return fromCertificates(given, now)
    return givenKey(crypto.createPublicKey(given), undefined, always)
  } catch {
    return Result.fail(forms)
  }
}

/** Whether a key signed the bytes. ECDSA signatures are taken in both encodings: that of JOSE and DER. */
export const isSignedBy = (
  { algorithm, publicKey }: { readonly algorithm: string; readonly publicKey: PublicJwk },
  bytes: Uint8Array,
  signature: Uint8Array
): boolean => {
  const key = crypto.createPublicKey({ key: { ...publicKey }, format: "jwk" })
  if (algorithm === "EdDSA") return crypto.verify(null, bytes, key, signature)
  const hash = `sha${algorithm.slice(2)}`
  if (algorithm.startsWith("ES")) {
    return (["ieee-p1363", "der"] as const).some((dsaEncoding) =>
      crypto.verify(hash, bytes, { key, dsaEncoding }, signature)
    )
  }
  const { RSA_PKCS1_PADDING, RSA_PKCS1_PSS_PADDING } = crypto.constants
  const padding = algorithm.startsWith("PS") ? RSA_PKCS1_PSS_PADDING : RSA_PKCS1_PADDING
  return crypto.verify(hash, bytes, { key, padding }, signature)
}
