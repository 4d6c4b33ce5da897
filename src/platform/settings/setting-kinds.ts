import { Config, ConfigProvider, Effect, flow, Option, Redacted, Schema } from "effect"
import { IpInterface, IpNetwork } from "effect/net"
import { type Declaration } from "./configuration-provider.ts"

/** A form that the text of a setting may have. */
export interface Kind<out A> extends Declaration {
  /** Reads the value at the root of a provider; nest it under the parts of its key. */
  readonly config: Config.Config<A>
  /** Completes "is not …". */
  readonly expected: string
}

interface TextKind<out A> extends Kind<A> {
  readonly read: (text: string) => Option.Option<A>
}

// The fault is worded by whoever knows the key and its source, and may not quote a secret.
const unreadable = new Config.ConfigError(new ConfigProvider.SourceError({ message: "unreadable" }))

const parsed = <A>(option: Option.Option<A>) => Effect.fromOption(option, () => unreadable)

const kind = <A>(expected: string, read: (text: string) => Option.Option<A>): TextKind<A> => ({
  config: Config.String().pipe(Config.mapEffect((text) => parsed(read(text)))),
  expected,
  form: "value",
  secret: false,
  read
})

const matching = (pattern: RegExp) => Option.liftPredicate((text: string) => pattern.test(text))

/** Any text. */
export const text: TextKind<string> = kind("text", Option.some)

/** `true` or `false` in any case. */
export const flag: Kind<boolean> = {
  ...kind("true or false", (text) =>
    Option.map(matching(/^(?:true|false)$/i)(text), (word) => word.toLowerCase() === "true")
  ),
  form: "flag"
}

/** A whole number between two bounds, both allowed. */
export const integer = (minimum: number, maximum: number): Kind<number> =>
  kind(
    `a whole number from ${minimum} to ${maximum}`,
    flow(
      matching(/^-?\d+$/),
      Option.map(Number),
      Option.filter((value) => value >= minimum && value <= maximum)
    )
  )

/** One of some words in any case, as they are written here. */
export const choice = <const Word extends string>(...words: ReadonlyArray<Word>): Kind<Word> =>
  kind(`one of ${words.join(", ")}`, (text) =>
    Option.fromNullishOr(words.find((word) => word.toLowerCase() === text.toLowerCase()))
  )

const webUrl = (text: string): Option.Option<URL> =>
  Option.fromNullishOr(URL.parse(text)).pipe(
    Option.filter(
      (url) => /^https?:\/\/[^/]/i.test(text) && `${url.username}${url.password}${url.search}${url.hash}` === ""
    )
  )

/** A web address: http or https, without user, query and fragment. */
export const address: Kind<URL> = kind("an http or https URL without user, query and fragment", webUrl)

/** A web address as normalised text without a slash at its end. */
export const base: Kind<string> = kind(address.expected, (text) =>
  Option.map(webUrl(text), (url) => `${url.origin}${url.pathname}`.replace(/\/+$/, ""))
)

/** The origin of a web page, as a browser writes it. */
export const origin: TextKind<string> = kind("an origin such as https://console.example.com", (text) =>
  webUrl(text).pipe(
    Option.filter((url) => url.pathname === "/"),
    Option.map((url) => url.origin)
  )
)

/** A network in CIDR notation; an address alone is the network of that address. */
export const network: TextKind<IpNetwork.IpNetwork> = kind("a network such as 10.0.0.0/8", (text) =>
  Option.flatMap(Option.getSuccess(IpInterface.fromString(text)), ({ address, prefixLength }) =>
    Option.getSuccess(IpNetwork.make(address, prefixLength))
  )
)

/** Any number of items of one kind. */
export const list = <A>(item: TextKind<A>): Kind<ReadonlyArray<A>> => ({
  config: Config.schema(Schema.Array(Schema.String)).pipe(
    Config.mapEffect((texts) => parsed(Option.all(texts.map(item.read))))
  ),
  expected: `a list, each item ${item.expected}`,
  form: "list",
  secret: false
})

const redacted = <A>(plain: TextKind<A>): Kind<Redacted.Redacted<A>> => ({
  ...plain,
  config: Config.map(plain.config, (value) => Redacted.make(value)),
  secret: true
})

/** A secret of visible ASCII, which an HTTP header can carry. */
export const headerSecret = redacted(kind("visible ASCII without spaces", matching(/^[\x21-\x7e]+$/)))

/** Secret HTTP headers as OpenTelemetry writes them: `name=value,name=value`. */
export const headerListSecret = redacted(kind("name=value,name=value", matching(/^[^=,]+=[^,]*(?:,[^=,]+=[^,]*)*$/)))

/** An address with credentials in it, by its schemes. */
export const urlSecret = (...schemes: ReadonlyArray<string>) =>
  redacted(
    kind(
      `a URL that begins with ${schemes.map((scheme) => `${scheme}://`).join(" or ")}`,
      Option.liftPredicate((text) =>
        schemes.some((scheme) => text.length > scheme.length + 3 && text.startsWith(`${scheme}://`))
      )
    )
  )

/** A key of 32 bytes, written in base64. */
export const keySecret: Kind<Redacted.Redacted<Uint8Array>> = redacted(
  kind("32 bytes in base64", (text) =>
    Option.filter(Schema.decodeOption(Schema.Uint8ArrayFromBase64)(text), (bytes) => bytes.length === 32)
  )
)
