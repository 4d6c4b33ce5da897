import { Config, ConfigProvider, Effect, Option, Redacted, Result, Schema } from "effect"
import { IpInterface, IpNetwork } from "effect/net"

/** A form that the text of a setting may have. */
export interface Kind<out A> {
  /** Reads the value at the root of a provider; nest it under the parts of its key. */
  readonly config: Config.Config<A>
  /** Completes "is not …". */
  readonly expected: string
  /** A `flag` may stand alone on the command line; a `list` is written `a,b` or numbered: `Key:0`, `Key:1`. */
  readonly form: "flag" | "value" | "list"
  /** A secret is never shown, and may also come from the file that `Key:File` names. */
  readonly secret: boolean
}

// The reader writes the message: it knows the key and its source, and must not quote a secret.
const invalid = new Config.ConfigError(new ConfigProvider.SourceError({ message: "invalid" }))

const kind = <A>(expected: string, read: (text: string) => A | undefined): Kind<A> => ({
  config: Config.mapEffect(Config.String(), (text) => Effect.mapError(Effect.fromNullishOr(read(text)), () => invalid)),
  expected,
  form: "value",
  secret: false
})

/** Any text. */
export const text = kind("text", (text) => text)

/** The name of a bucket of S3. */
export const bucket = kind("3 to 63 small letters, digits, dots and hyphens", (text) =>
  /^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$/.test(text) ? text : undefined
)

/** The name of an environment variable. */
export const variable = kind("the name of an environment variable", (text) =>
  /^[A-Za-z_][A-Za-z0-9_]*$/.test(text) ? text : undefined
)

/** `true` or `false` in any case. */
export const flag: Kind<boolean> = {
  ...kind("true or false", (text) => (/^(?:true|false)$/i.test(text) ? text.toLowerCase() === "true" : undefined)),
  form: "flag"
}

/** A whole number between two bounds, both allowed. */
export const integer = (minimum: number, maximum: number): Kind<number> =>
  kind(`a whole number from ${minimum} to ${maximum}`, (text) => {
    const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN
    return value >= minimum && value <= maximum ? value : undefined
  })

/** One of some words, in any case. */
export const choice = <const Word extends string>(...words: ReadonlyArray<Word>): Kind<Word> =>
  kind(`one of ${words.join(", ")}`, (text) => words.find((word) => word.toLowerCase() === text.toLowerCase()))

const webUrl = (text: string): URL | undefined => {
  const url = /^https?:\/\/[^/]/i.test(text) ? URL.parse(text) : null
  return url !== null && `${url.username}${url.password}${url.search}${url.hash}` === "" ? url : undefined
}

/** A web address: http or https, without user, query and fragment. */
export const address: Kind<URL> = kind("an http or https URL without user, query and fragment", webUrl)

/** A web address as normalised text without a slash at its end. */
export const base: Kind<string> = kind(address.expected, (text) => {
  const url = webUrl(text)
  return url && `${url.origin}${url.pathname}`.replace(/\/+$/, "")
})

/** The origin of a web page, as a browser writes it. */
export const origin = kind("an origin such as https://console.example.com", (text) => {
  const url = webUrl(text)
  return url?.pathname === "/" ? url.origin : undefined
})

/** A network in CIDR notation; an address alone is the network of that address. */
export const network = kind("a network such as 10.0.0.0/8", (text) =>
  IpInterface.fromString(text).pipe(
    Result.flatMap(({ address, prefixLength }) => IpNetwork.make(address, prefixLength)),
    Result.getOrUndefined
  )
)

/** Any number of items of one kind. */
export const list = <A>({ config, expected }: Kind<A>): Kind<ReadonlyArray<A>> => ({
  config: Config.mapEffect(
    Config.schema(Schema.Array(Schema.String)),
    Effect.forEach((text) => config.parse(ConfigProvider.fromUnknown(text)))
  ),
  expected: `a list, each item ${expected}`,
  form: "list",
  secret: false
})

const redacted = <A>({ config, ...plain }: Kind<A>): Kind<Redacted.Redacted<A>> => ({
  ...plain,
  config: Config.map(config, (value) => Redacted.make(value)),
  secret: true
})

const secretMatching = (expected: string, pattern: RegExp) =>
  redacted(kind(expected, (text) => (pattern.test(text) ? text : undefined)))

/** A secret that an HTTP header can carry. */
export const headerSecret = secretMatching("visible ASCII without spaces", /^[\x21-\x7e]+$/)

/** Secret HTTP headers as OpenTelemetry writes them. */
export const headerListSecret = secretMatching("name=value,name=value", /^[^=,]+=[^,]*(?:,[^=,]+=[^,]*)*$/)

/** An address with credentials in it, by its schemes. */
export const urlSecret = (...schemes: ReadonlyArray<string>) =>
  secretMatching(
    `a URL that begins with ${schemes.map((scheme) => `${scheme}://`).join(" or ")}`,
    new RegExp(`^(?:${schemes.join("|")})://.`, "s")
  )

/** The URL of a PostgreSQL database, of one host or several, with what it may ask of the server that it connects to. */
export const databaseSecret = (...attributes: ReadonlyArray<string>) =>
  secretMatching(
    `a postgres:// URL; target_session_attrs: ${attributes.join(" or ")}`,
    new RegExp(`^(?!.*[?&]target_session_attrs=(?!(?:${attributes.join("|")})(?:[&#]|$)))postgres(?:ql)?://.`, "s")
  )

/** A key of 32 bytes. */
export const keySecret = redacted(
  kind("32 bytes in base64", (text) => {
    const bytes = Option.getOrUndefined(Schema.decodeOption(Schema.Uint8ArrayFromBase64)(text))
    return bytes?.length === 32 ? bytes : undefined
  })
)
