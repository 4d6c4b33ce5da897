import { Effect, Result, Schema } from "effect"
import * as crypto from "node:crypto"
import { errorText } from "../../kernel/http/challenge.ts"
import { faultOptions, faultsOf } from "../../platform/http/validation.ts"
import { isPrivateHost } from "../../platform/outbound/guarded-dispatcher.ts"
import { requirePublic } from "../../platform/outbound/outbound-http.ts"
import { OAuthError } from "../oauth/oauth-error.ts"
import { ClientMetadata, type Registration, scopesIn } from "./domain.ts"

/** What a client said of itself, as it is stored. */
export type Described = Pick<
  Registration,
  | "clientName"
  | "clientUri"
  | "redirectUris"
  | "jwks"
  | "jwksUri"
  | "contacts"
  | "softwareId"
  | "softwareVersion"
  | "requestedScopes"
>

/** An error of RFC 7591 §3.2.2. */
const refused = (code: "invalid_client_metadata" | "invalid_redirect_uri", description: string) =>
  new OAuthError({ code, description: errorText(description) })

export const invalidMetadata = (description: string) => refused("invalid_client_metadata", description)

const decode = Schema.decodeUnknownResult(ClientMetadata)
const maxFaults = 3

const isPublicKey = (jwk: JsonWebKey): boolean => {
  try {
    return crypto.createPublicKey({ key: jwk, format: "jwk" }).type === "public"
  } catch {
    return false
  }
}

/** What is wrong with metadata of the right form. */
const faultIn = ({ client_uri: uri, jwks, jwks_uri: jwksUri }: ClientMetadata): string | undefined => {
  if (jwks != null && jwksUri != null) return "Send jwks or jwks_uri, not both."
  if (uri != null && isPrivateHost(new URL(uri).hostname))
    return "client_uri: The address is not of the public internet"
  const keys = jwks?.keys ?? []
  const unreadable = keys.findIndex((key) => !isPublicKey({ ...key }))
  if (unreadable >= 0) return `jwks.keys.${unreadable}: Expected a public key`
  const ids = keys.flatMap(({ kid }) => (kid === undefined ? [] : [kid]))
  return new Set(ids).size === ids.length ? undefined : "jwks.keys: Several keys have the same kid"
}

/** Reads the metadata of a client, whose addresses must be public. */
export const readMetadata = Effect.fn("Registrations.readMetadata")(function* (body: unknown) {
  const decoded = decode(body, faultOptions(body))
  if (Result.isFailure(decoded)) {
    const faults = faultsOf("", decoded.failure).map(({ message, path }) => ({
      path: path.slice(1),
      message: message === "Expected never" ? "Expected a public key, without this member" : message
    }))
    const isRedirect = faults.every(({ path }) => path[0] === "redirect_uris")
    const shown = faults.slice(0, maxFaults).map(({ message, path }) => [...path.slice(0, 4), message].join(": "))
    return yield* refused(isRedirect ? "invalid_redirect_uri" : "invalid_client_metadata", shown.join("; "))
  }
  const metadata = decoded.success
  const fault = faultIn(metadata)
  if (fault !== undefined) return yield* invalidMetadata(fault)
  if (metadata.jwks_uri != null) {
    yield* Effect.mapError(requirePublic(metadata.jwks_uri), () =>
      invalidMetadata("jwks_uri: The host has no address of the public internet")
    )
  }
  const described: Described = {
    clientName: metadata.client_name ?? null,
    clientUri: metadata.client_uri ?? null,
    redirectUris: [...new Set(metadata.redirect_uris ?? [])],
    jwks: metadata.jwks ?? null,
    jwksUri: metadata.jwks_uri ?? null,
    contacts: [...new Set(metadata.contacts ?? [])],
    softwareId: metadata.software_id ?? null,
    softwareVersion: metadata.software_version ?? null,
    requestedScopes: scopesIn(metadata.scope ?? "")
  }
  return described
})
