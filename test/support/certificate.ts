import * as crypto from "node:crypto"
import * as fs from "node:fs"
import * as path from "node:path"
import * as tls from "node:tls"

// X.509 in DER (RFC 5280), as far as a certificate for this machine needs it: Node.js signs, and makes no certificates.
const tlv = (tag: number, ...parts: ReadonlyArray<Uint8Array>): Buffer => {
  const body = Buffer.concat(parts)
  const length =
    body.length < 128
      ? [body.length]
      : body.length < 256
        ? [0x81, body.length]
        : [0x82, body.length >> 8, body.length & 255]
  return Buffer.concat([Buffer.from([tag, ...length]), body])
}
const sequence = (...parts: ReadonlyArray<Uint8Array>) => tlv(0x30, ...parts)
const hex = (text: string) => Buffer.from(text, "hex")
const ecdsaWithSha256 = sequence(tlv(0x06, hex("2a8648ce3d040302")))
const utcTime = (moment: Date) =>
  tlv(
    0x17,
    Buffer.from(
      `${moment
        .toISOString()
        .replace(/[-:T]|\.\d+/g, "")
        .slice(2)}`
    )
  )

/** A key and a certificate for `localhost` and 127.0.0.1 that signs itself, valid for a day. */
export const makeCertificate = (): { readonly key: string; readonly cert: string } => {
  const { privateKey, publicKey } = crypto.generateKeyPairSync("ec", { namedCurve: "P-256" })
  const name = sequence(tlv(0x31, sequence(tlv(0x06, hex("550403")), tlv(0x0c, Buffer.from("localhost")))))
  const day = 86_400_000
  const extension = (id: string, value: Uint8Array) => sequence(tlv(0x06, hex(id)), tlv(0x04, value))
  const tbs = sequence(
    tlv(0xa0, tlv(0x02, hex("02"))),
    tlv(0x02, Buffer.concat([hex("01"), crypto.randomBytes(8)])),
    ecdsaWithSha256,
    name,
    sequence(utcTime(new Date(Date.now() - day)), utcTime(new Date(Date.now() + day))),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    tlv(
      0xa3,
      sequence(
        extension("551d11", sequence(tlv(0x82, Buffer.from("localhost")), tlv(0x87, hex("7f000001")))),
        extension("551d13", sequence(tlv(0x01, hex("ff"))))
      )
    )
  )
  const der = sequence(tbs, ecdsaWithSha256, tlv(0x03, hex("00"), crypto.sign("sha256", tbs, privateKey)))
  const lines = der.toString("base64").replace(/(.{64})/g, "$1\n")
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    cert: `-----BEGIN CERTIFICATE-----\n${lines.trimEnd()}\n-----END CERTIFICATE-----\n`
  }
}

const filesIn = (directory: string) => ({
  key: path.join(directory, "key.pem"),
  cert: path.join(directory, "certificate.pem")
})

/** Puts the certificate of this process where another one finds it. */
export const shareCertificate = (directory: string): void => {
  const { cert, key } = filesIn(directory)
  fs.mkdirSync(directory, { recursive: true })
  fs.writeFileSync(key, trustedCertificate().key, { mode: 0o600 })
  fs.writeFileSync(cert, trustedCertificate().cert)
}

const sharedIn = (directory: string) => {
  const { cert, key } = filesIn(directory)
  return fs.existsSync(cert) ? { key: fs.readFileSync(key, "utf8"), cert: fs.readFileSync(cert, "utf8") } : undefined
}

let made: ReturnType<typeof makeCertificate> | undefined

/** A certificate that this process accepts; the one in EXAMPLE_TLS_DIR, if there is one. */
export const trustedCertificate = () => {
  if (made !== undefined) return made
  const { EXAMPLE_TLS_DIR: directory } = process.env
  made = (directory === undefined ? undefined : sharedIn(directory)) ?? makeCertificate()
  tls.setDefaultCACertificates([...tls.getCACertificates("default"), made.cert])
  return made
}

if (import.meta.main) shareCertificate(process.env.EXAMPLE_TLS_DIR ?? ".")
