import { Effect } from "effect"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { type CloudEvent, ownSources, ownTypePrefix, usageRecorded } from "./domain.ts"

/** Only this service speaks for itself: fails for the event of another that has a source or a type of this service. */
export const requireForeign = ({ source, type }: CloudEvent, publicUrl: string): Effect.Effect<void, Forbidden> => {
  const fault = isOwnSource(source, publicUrl)
    ? `The source ${source} is this service's or one that is equal to it once resolved: ${ownSources.join(" and ")} are of this service. Send a URI of your own, such as https://shop.example.com/orders.`
    : isOwnType(type)
      ? `The type ${type} is this service's: of the types ${ownTypePrefix}* others send ${usageRecorded} alone, written like that. Send a type of your own, such as com.example.order.created.`
      : undefined
  return fault === undefined ? Effect.void : Effect.fail(new Forbidden({ missing: [], detail: fault }))
}

const isOwnType = (type: string): boolean =>
  type !== usageRecorded && `${type.normalize("NFKC").toLowerCase()}.`.startsWith(ownTypePrefix)

/** Encoded characters, of one octet or several; an octet that is no UTF-8 stays as it is. */
const encoded = /%[0-7][0-9a-f]|%[c-f][0-9a-f](?:%[89ab][0-9a-f]){1,3}/gi
const decodedOnce = (octets: string): string => {
  try {
    return decodeURIComponent(octets)
  } catch {
    return octets
  }
}

/** Without any percent-encoding, however often it was encoded. */
const decoded = (text: string): string => {
  const once = text.replace(encoded, decodedOnce)
  return once === text ? text : decoded(once)
}

/**
 * Whether a reader that resolves or normalizes a source (RFC 3986 §5 and §6) may take it for one of this service. Each reading of
 * it is resolved against the URL of the service.
 */
export const isOwnSource = (source: string, publicUrl: string): boolean => {
  const base = new URL(publicUrl.endsWith("/") ? publicUrl : `${publicUrl}/`)
  const home = decoded(base.pathname).toLowerCase()
  const relative = source.replace(/^https?:(?!\/\/)/i, "")
  const readings = [relative, decoded(relative).normalize("NFKC")].flatMap((one) => {
    const slashed = one.replaceAll("\\", "/")
    return [slashed, slashed.replace(/(?<!:)\/{2,}/g, "/")]
  })
  return readings.some((reading) => {
    if (/^urn:application-manager:/i.test(reading)) return true
    const url = URL.parse(reading, base)
    if (url === null || !/^https?:$/.test(url.protocol) || hostOf(url) !== hostOf(base)) return false
    const path = decoded(url.pathname)
      .replace(/\/{2,}/g, "/")
      .toLowerCase()
    return [path, ...(path.startsWith(home) ? [path.slice(home.length - 1)] : [])].some(isReserved)
  })
}

/** The host with its port, whichever of the two schemes a URL has. */
const hostOf = ({ host }: URL): string => host.replace(/\.(?=$|:)/, "").replace(/:(?:80|443)$/, "")

const isReserved = (path: string): boolean =>
  ownSources.some((own) => path.startsWith(own) && /^(?:[/;]|$)/.test(path.slice(own.length)))
