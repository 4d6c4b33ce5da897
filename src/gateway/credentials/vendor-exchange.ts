import { Context, Effect } from "effect"
import { parsedJson, isJson, type Json } from "../../kernel/json/parsed-json.ts"
import { OutboundHttp, type OutboundResponse } from "../../platform/outbound/outbound-http.ts"
import { CredentialUnavailable } from "./token-source.ts"

/** Where requests for credentials go. Tests replace it, so that they go to servers of their own. */
export interface CredentialAddresses {
  /** Where a request to a URL is sent instead; undefined: there. */
  dial(url: URL): URL | undefined
  /** Whether a provider at this address may be sent credentials, although it is none of the vendor's hosts. */
  isTrusted(baseUrl: URL): boolean
}

export const CredentialAddresses = Context.Reference<CredentialAddresses>("app/gateway/CredentialAddresses", {
  defaultValue: () => ({ dial: () => undefined, isTrusted: () => false })
})

export interface CredentialRequest {
  readonly method: "GET" | "POST" | "PUT"
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

const vendorSeconds = 10
const metadataSeconds = 2
const maxBytes = 1_048_576

/** Sends requests for credentials. Redirects are not followed. */
export const makeCredentialHttp = Effect.gen(function* () {
  const outbound = yield* OutboundHttp
  const { dial } = yield* CredentialAddresses

  const send = (request: CredentialRequest, timeoutSeconds: number, isMetadata: boolean) => {
    const url = new URL(request.url)
    const elsewhere = dial(url)
    return outbound
      .send({
        ...request,
        url: (elsewhere ?? url).href,
        timeoutSeconds,
        maxBytes,
        allowPrivate: isMetadata || elsewhere !== undefined
      })
      .pipe(Effect.mapError(({ detail }) => new CredentialUnavailable({ detail: `${url.hostname}: ${detail}` })))
  }

  return {
    /** To a vendor's token service: only to one of its hosts, over HTTPS. */
    toVendor: Effect.fnUntraced(function* (request: CredentialRequest, hosts: ReadonlyArray<string>) {
      const url = URL.parse(request.url)
      if (url === null || url.protocol !== "https:" || url.port !== "" || !hosts.includes(url.hostname)) {
        return yield* new CredentialUnavailable({ detail: "The address is not the vendor's own token service" })
      }
      return yield* send(request, vendorSeconds, false)
    }),
    /** To a metadata service of the machine: only to one of these origins. A lost answer is asked for once more. */
    toMetadata: Effect.fnUntraced(function* (request: CredentialRequest, origins: ReadonlyArray<string>) {
      const url = URL.parse(request.url)
      if (url === null || !origins.includes(url.origin)) {
        return yield* new CredentialUnavailable({ detail: "The address is none of a metadata service" })
      }
      return yield* Effect.retry(send(request, metadataSeconds, true), { times: 1 })
    })
  }
})
export type CredentialHttp = Effect.Success<typeof makeCredentialHttp>

const code = /^[A-Za-z0-9_.:-]{1,100}$/
const entraCode = /\bAADSTS\d{4,8}\b/

/** The names of an error in an answer, which say what is wrong without repeating anything that was sent. */
const errorIn = (answer: unknown): ReadonlyArray<string> => {
  if (!isJson(answer)) return []
  const { error, error_description: description } = answer
  const names = isJson(error) ? [error.type, error.code, error.status] : [error]
  const entra = typeof description === "string" ? (entraCode.exec(description)?.[0] ?? undefined) : undefined
  return [...names, entra].filter((name): name is string => typeof name === "string" && code.test(name))
}

/** The JSON of a successful answer. */
export const jsonOf = (
  url: string,
  { status, text, isCut }: OutboundResponse
): Effect.Effect<Json, CredentialUnavailable> => {
  const { hostname } = new URL(url)
  const answer = isCut ? undefined : parsedJson(text)
  if (status < 200 || status >= 300) {
    const names = errorIn(answer)
    const detail = `${hostname} answered ${[status, ...names].join(" ")}`
    return Effect.fail(new CredentialUnavailable({ detail }))
  }
  return isJson(answer)
    ? Effect.succeed(answer)
    : Effect.fail(new CredentialUnavailable({ detail: `${hostname} answered what is no JSON object` }))
}
