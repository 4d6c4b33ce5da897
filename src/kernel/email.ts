import { Schema } from "effect"
import { composed, isStorable } from "./text.ts"

/** A name of a host of two labels or more, as the domain name system has it (RFC 5890): no address of four numbers. */
const hostName =
  /^(?=.{1,253}$)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)+(?!\d+$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$/

/** What a parser of URLs reads as the end of a host, decodes, or leaves out unseen. */
const unlikeHost = /[^\P{ASCII}A-Za-z0-9.-]|(?![\u200c\u200d])\p{Default_Ignorable_Code_Point}/u

/** A domain in the one form that it is compared by, with A-labels in the place of other scripts; undefined for what is none. */
export const asciiDomain = (domain: string): string | undefined => {
  const ascii = unlikeHost.test(domain) ? undefined : URL.parse(`https://${domain}`)?.hostname
  return ascii !== undefined && hostName.test(ascii) ? ascii : undefined
}

const characters = [
  /[\p{L}\p{N}!#$%&'*+/=?^_`{|}~-]/u,
  /(?<=[\p{L}\p{N}\p{M}\u200c\u200d])\p{M}/u,
  // What RFC 8264 allows between the letters of some scripts.
  /(?<=[\p{L}\p{M}])[\u00b7\u0375\u05f3\u05f4\u0f0b\u30fb]/u,
  // A joiner changes how Indic and Persian letters look, and is seen nowhere else.
  /(?<=(?![\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}])[\p{L}\p{M}])[\u200c\u200d](?=[\p{L}\p{M}])/u,
  /(?<!^|\.)\.(?!\.|$)/u
]
/** What is before the @: letters, digits and marks of any script, the signs of RFC 5322, and single dots between them. */
const localPart = new RegExp(`^(?:${characters.map(({ source }) => source).join("|")}){1,64}$`, "u")

const partsOf = (email: string): readonly [local: string, domain: string] => {
  const at = email.lastIndexOf("@")
  return [email.slice(0, Math.max(0, at)), email.slice(at + 1)]
}

const isEmail = (email: string): boolean => {
  const [local, domain] = partsOf(email)
  return [...email].length <= 254 && isStorable(email) && localPart.test(local) && asciiDomain(domain) !== undefined
}

/**
 * An e-mail address, also of other scripts (RFC 6531), with a domain of the public kind: no quotes, comments and addresses of
 * hosts. It is kept as it was typed, in the form NFC; {@link emailKey} is what it is compared by.
 */
export const Email = composed(
  Schema.String.pipe(
    Schema.check(
      Schema.makeFilter(isEmail, {
        expected: "a valid e-mail address",
        toJsonSchema: () => ({
          minLength: 3,
          maxLength: 254,
          pattern: String.raw`^[^\s@]{1,64}@[^\s@.]+(?:\.[^\s@.]+)+$`
        })
      })
    )
  ),
  { component: "Email", examples: ["ada@example.com"] }
)

/**
 * What two spellings of one address have in common: small letters, and the domain in ASCII. Only letters that differ in case
 * are one letter, and the same in every database; İ and i, ß and ss are not. Text that is no address has a key, too.
 */
export const emailKey = (text: string): string => {
  const [local, domain] = partsOf(text.normalize("NFC"))
  // A sigma has one capital and two small letters.
  const folded = local.toLowerCase().replaceAll("ς", "σ").normalize("NFC")
  return `${folded}@${asciiDomain(domain) ?? domain.toLowerCase()}`
}

/** The domain that an address is of, in the form that domains are compared by; undefined for text that is no address. */
export const domainOfEmail = (email: string): string | undefined => asciiDomain(partsOf(email)[1])
