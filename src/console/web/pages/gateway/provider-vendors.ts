import credentials from "virtual:credentials"
import vendors from "virtual:vendors"
import { textOf } from "../../kit/forms/form.tsx"
import { type Provider } from "./document.ts"

export type Vendor = (typeof vendors)[number]
export type Dialect = Vendor["dialect"]
export type Authorization = NonNullable<Vendor["authorizations"]>[number]

export const dialects: Readonly<Record<Dialect, string>> = {
  openai: "OpenAI",
  anthropic: "Anthropic",
  gemini: "Google"
}

/** What can be chosen as vendor: one with its address, or the API that another speaks. */
export const choices = [
  ...vendors.map(({ id, name }) => [id, name] as const),
  ...Object.entries(dialects).map(([dialect, name]) => [`api:${dialect}`, `Another, with ${name}'s API`] as const)
]

export const presetOf = (choice: string) => vendors.find(({ id }) => id === choice)

/** Which API is spoken for a choice. */
export const dialectOf = (choice: string): Dialect =>
  presetOf(choice)?.dialect ?? (choice.slice("api:".length) as Dialect)

const hostOf = (url: string): string => /^https?:\/\/([^/]+)/.exec(url)?.[1] ?? ""

const isHostOf = (template: string, host: string): boolean =>
  new RegExp(
    `^${hostOf(template)
      .replaceAll(".", String.raw`\.`)
      .replaceAll(/\{\w+\}/g, "[a-z0-9-]+")}$`
  ).test(host)

/** The choice that a provider of the configuration came of. */
export const choiceOf = ({ baseUrl, dialect, platform = "direct" }: Provider): string =>
  vendors.find(
    (vendor) =>
      vendor.dialect === dialect &&
      (vendor.platform ?? "direct") === platform &&
      [vendor.baseUrl, ...Object.values(vendor.regions ?? {})].some((one) => isHostOf(one, hostOf(baseUrl)))
  )?.id ?? `api:${dialect}`

/** What a vendor's address is made of: its region, or the name of a resource. */
export const placesOf = (preset: Vendor | undefined): ReadonlyArray<string> =>
  Array.from(preset?.baseUrl.matchAll(/\{(\w+)\}/g) ?? [], ([, name = ""]) => name)

/** A vendor's address; without what it is made of while a part of that is not known. */
export const addressOf = (preset: Vendor | undefined, places: Readonly<Record<string, string>>): string => {
  if (preset === undefined || placesOf(preset).some((name) => (places[name] ?? "") === "")) {
    return placesOf(preset).length === 0 ? (preset?.baseUrl ?? "") : ""
  }
  return (
    preset.regions?.[places.region ?? ""] ??
    preset.baseUrl.replaceAll(/\{(\w+)\}/g, (_, name: string) => places[name] ?? "")
  )
}

const authorizationNames: Readonly<Record<Authorization, string>> = {
  key: "An API key",
  none: "Nothing",
  aws: "Keys of AWS that are renewed",
  entra: "A token of Microsoft Entra ID",
  google: "A token of Google Cloud",
  "federation:anthropic": "A token for the gateway's own identity",
  "federation:openai": "A token for the gateway's own identity",
  "federation:openrouter": "A token for the gateway's own identity"
}

/** What authorizes the requests of a provider of the configuration. */
export const authorizationOf = ({ apiKey, credential }: Provider): Authorization => {
  if (credential === undefined) return apiKey === undefined ? "none" : "key"
  return credential.type === "federation" ? `federation:${credential.vendor}` : credential.type
}

/** What requests to a vendor, or of a provider of it, may be authorized by, and what is shown for it. */
export const authorizationsOf = (preset: Vendor | undefined, of: Provider | undefined) => {
  const kinds = preset?.authorizations ?? ["key" as const]
  const current = of === undefined ? "none" : authorizationOf(of)
  const all = current === "none" || kinds.includes(current) ? kinds : [...kinds, current]
  return all.map((kind) => [kind, authorizationNames[kind]] as const)
}

/** The members of a credential besides its type; none of a key, which has a field of its own. */
export const membersOf = (kind: Authorization) => (kind === "key" ? [] : (credentials[kind] ?? []))

/** The credential that a form says. */
export const credentialIn = (data: FormData, kind: Authorization): Provider["credential"] => {
  if (kind === "key" || kind === "none") return undefined
  const [type, vendor] = kind.split(":")
  const members = membersOf(kind).flatMap(({ name }) => {
    const value = textOf(data, `credential.${name}`)
    return value === undefined ? [] : [[name, value] as const]
  })
  return { type, ...(vendor === undefined ? {} : { vendor }), ...Object.fromEntries(members) } as Provider["credential"]
}

/** A member's name in words: `roleArn` is `Role arn`. */
export const inWords = (name: string): string => {
  const words = name.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`)
  return words.charAt(0).toUpperCase() + words.slice(1)
}
