import { Record, Struct } from "effect"
import { X509Certificate } from "node:crypto"
import { uuidIn } from "../../kernel/identifier.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { awsServiceOf } from "../credentials/aws/hosts.ts"
import { type ConfiguredCredential } from "../credentials/domain.ts"
import { ownApis, type ProviderApi } from "../formats/domain.ts"
import { spoken } from "../formats/registry/formats.ts"
import { loopbackId, loopbackModel } from "../providers/loopback.ts"
import { invokedDialects } from "../providers/platforms/bedrock.ts"
import { vertexLocation } from "../providers/platforms/vertex.ts"
import { type ConfiguredProvider, type GatewayDocument, ProviderDialect } from "./configuration-domain.ts"
import { type ProviderPlatform } from "./domain.ts"

/** What a provider's key reference points to. */
export type KeyReference =
  | { readonly kind: "environment"; readonly name: string }
  | { readonly kind: "file"; readonly name: string }
  | { readonly kind: "secret"; readonly id: string }
  | { readonly kind: "literal"; readonly key: string }

export const referenceOf = (apiKey: string): KeyReference => {
  if (apiKey.startsWith("env:")) return { kind: "environment", name: apiKey.slice(4) }
  if (apiKey.startsWith("file:")) return { kind: "file", name: apiKey.slice(5) }
  if (apiKey.startsWith("secret:")) return { kind: "secret", id: uuidIn(apiKey.slice(7)) ?? apiKey.slice(7) }
  return { kind: "literal", key: apiKey }
}

/** Header names that indicate a credential, for any vendor; their values are stored like keys. */
const credentials = /(?:^|[-_])(?:apikey|key|token|secret|auth|authorization|password|credentials?)(?:$|[-_])/i
export const bearsCredential = (header: string): boolean => credentials.test(header)

/** What a platform serves in a way of its own. */
const platformDialects: Readonly<Record<ProviderPlatform, ReadonlyArray<ProviderDialect>>> = {
  direct: ProviderDialect.literals,
  azure: ["openai"],
  bedrock: ["openai", "anthropic"],
  vertex: ["gemini", "anthropic", "openai"]
}

/** What a credential has that is stored like a key, with its path. */
const secretsOf = (
  credential: ConfiguredCredential
): ReadonlyArray<readonly [path: ReadonlyArray<string>, reference: string]> => {
  switch (credential.type) {
    case "key":
      return [[["credential", "value"], credential.value]]
    case "entra":
      return credential.secret === undefined ? [] : [[["credential", "secret"], credential.secret]]
    case "aws":
    case "federation":
    case "google":
      return []
  }
}

/** Where the administration API of a provider's account is. */
export const billingBaseUrl = ({ baseUrl, billing }: ConfiguredProvider): string => billing?.baseUrl ?? baseUrl

/** The credentials of a provider with their paths: its keys, and the headers that contain another; each is sent to its base URL. */
export const credentialsOf = (
  provider: ConfiguredProvider
): ReadonlyArray<readonly [path: ReadonlyArray<string>, reference: string, baseUrl: string]> => {
  const { apiKey, baseUrl, billing, credential, headers = {} } = provider
  const own = [
    ...(apiKey === undefined ? [] : [[["apiKey"], apiKey] as const]),
    ...(credential === undefined ? [] : secretsOf(credential)),
    ...Object.entries(headers).flatMap(([name, value]) =>
      bearsCredential(name) ? [[["headers", name], value] as const] : []
    )
  ]
  return [
    ...own.map(([path, reference]) => [path, reference, baseUrl] as const),
    ...(billing === undefined ? [] : [[["billing", "adminKey"], billing.adminKey, billingBaseUrl(provider)] as const])
  ]
}

/** The dialects whose vendors report what they billed. */
const reportingDialects: ReadonlySet<string> = new Set(["openai", "anthropic"])

/** A provider with other references in the places that `credentialsOf` names. */
export const withCredentials = (
  provider: ConfiguredProvider,
  references: ReadonlyArray<readonly [path: ReadonlyArray<string>, reference: string]>
): ConfiguredProvider => {
  const made: Record<string, unknown> = { ...provider }
  for (const [[member = "", name], reference] of references) {
    made[member] = name === undefined ? reference : { ...(made[member] as object), [name]: reference }
  }
  return made as unknown as ConfiguredProvider
}

/** The error in a reference's form, or undefined. */
export const referenceFault = (reference: KeyReference): string | undefined => {
  switch (reference.kind) {
    case "file":
      return /^[A-Za-z0-9_-][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$/.test(reference.name)
        ? undefined
        : "Expected the name of a file below Llm:SecretsDirectory"
    case "secret":
      return uuidIn(reference.id) !== undefined
        ? undefined
        : "Expected secret: and the id that a saved key was replaced by"
    case "environment":
    case "literal":
      return undefined
  }
}

/** Whether the text is one or more PEM certificates that can all be parsed. */
const areCertificates = (pem: string): boolean => {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  try {
    return blocks.map((block) => new X509Certificate(block)).length > 0
  } catch {
    return false
  }
}

/** What the place of models at Vertex AI lacks, or has elsewhere. */
const vertexFaults = ({ apiVersion, baseUrl, platform, project, region }: ConfiguredProvider): ReadonlyArray<Fault> => {
  if (platform !== "vertex") {
    const given = { project, region }
    return (["project", "region"] as const).flatMap((name) =>
      given[name] === undefined ? [] : [{ path: [name], message: 'Only the platform "vertex" has one' }]
    )
  }
  return [
    ...(project === undefined ? [{ path: ["project"], message: "Expected the id of a project of Google Cloud" }] : []),
    ...(region === undefined && vertexLocation(baseUrl) === undefined
      ? [{ path: ["region"], message: "Expected the location, since the host's name says none" }]
      : []),
    ...(apiVersion === undefined || /^v\d[a-z0-9]{0,20}$/.test(apiVersion)
      ? []
      : [{ path: ["apiVersion"], message: "Expected a version of the API, as v1 or v1beta1" }])
  ]
}

const lacks = (apis: ReadonlyArray<ProviderApi>, api: ProviderApi): boolean => apis.length > 0 && !apis.includes(api)

/** Validates a configuration beyond the form of its members; returns every error with its path. */
export const faultsIn = ({ models = [], providers = [] }: GatewayDocument): ReadonlyArray<Fault> => {
  const faults: Array<Fault> = []
  const ids = new Set([loopbackId])
  /** The providers without an API. */
  const without = (api: ProviderApi) =>
    new Set(
      providers.flatMap(({ apis, dialect, id }) =>
        spoken[dialect].apis.has(api) && apis?.includes(api) !== false ? [] : [id]
      )
    )
  const withoutOwn = Record.map(Struct.omit(ownApis, ["chat"]), without)
  for (const [index, provider] of providers.entries()) {
    const { apiKey, apiVersion, credential, dialect, id, platform = "direct", surface, tlsCa } = provider
    const at = ["payload", "providers", index]
    if (id === loopbackId) {
      if (dialect !== "loopback") faults.push({ path: [...at, "id"], message: "This id is the loopback provider's" })
    } else if (ids.has(id)) faults.push({ path: [...at, "id"], message: "Another provider has this id" })
    ids.add(id)
    if (credential !== undefined && (apiKey !== undefined || dialect === "loopback")) {
      const message = dialect === "loopback" ? "The loopback needs no credential" : "Expected this or apiKey, not both"
      faults.push({ path: [...at, "credential"], message })
    }
    if (credential?.type === "aws" && awsServiceOf(provider.baseUrl, credential) === undefined) {
      const message =
        "Expected a host that names its service and region, as bedrock-runtime.eu-central-1.amazonaws.com, or `region`"
      faults.push({ path: [...at, "baseUrl"], message })
    }
    if (credential?.type === "google" && credential.audience !== undefined && credential.keyFile !== undefined) {
      faults.push({ path: [...at, "credential", "audience"], message: "Expected this or keyFile, not both" })
    }
    if (credential?.type === "google" && credential.audience === undefined && credential.assertion !== undefined) {
      faults.push({ path: [...at, "credential", "audience"], message: "Expected the provider that takes `assertion`" })
    }
    if (!platformDialects[platform].includes(dialect)) {
      const message = `Expected a dialect that the platform serves: ${platformDialects[platform].join(", ")}`
      faults.push({ path: [...at, "dialect"], message })
    }
    if (apiVersion !== undefined && platform === "direct") {
      const message = 'Only addresses of the platforms "azure" and "vertex" have one'
      faults.push({ path: [...at, "apiVersion"], message })
    }
    faults.push(...vertexFaults(provider).map(({ message, path }) => ({ path: [...at, ...path], message })))
    if (surface !== undefined && (platform !== "bedrock" || !invokedDialects.has(dialect))) {
      const message = 'Only the platform "bedrock" has it, for the dialect "anthropic"'
      faults.push({ path: [...at, "surface"], message })
    }
    if (credential?.type === "aws" && credential.externalId !== undefined) {
      const isUnused = credential.roleArn === undefined || credential.assertion !== undefined
      const message = "It belongs to a role that is assumed by other credentials than an assertion"
      if (isUnused) faults.push({ path: [...at, "credential", "externalId"], message })
    }
    for (const [path, reference] of credentialsOf(provider)) {
      const fault = referenceFault(referenceOf(reference))
      if (fault !== undefined) faults.push({ path: [...at, ...path], message: fault })
    }
    if (provider.billing !== undefined && !reportingDialects.has(dialect)) {
      faults.push({ path: [...at, "billing"], message: "Expected only with the dialects openai and anthropic" })
    } else if (provider.billing !== undefined && (provider.platform ?? "direct") !== "direct") {
      faults.push({
        path: [...at, "billing"],
        message: "Expected only with the platform direct: others have bills of their own"
      })
    }
    if (provider.apis !== undefined && spoken[dialect].apis.size === 1) {
      faults.push({ path: [...at, "apis"], message: "Providers of this dialect have one API, which needs no list" })
    }
    if (tlsCa !== undefined && !areCertificates(tlsCa)) {
      faults.push({ path: [...at, "tlsCa"], message: "Expected certificates in PEM" })
    }
  }
  const speakers = new Map(providers.map(({ dialect, id }) => [id, spoken[dialect]]))
  const names = new Set([loopbackModel])
  for (const [index, { aliases = [], id, kind, targets }] of models.entries()) {
    const at = ["payload", "models", index]
    if (names.has(id)) faults.push({ path: [...at, "id"], message: "Another model has this name" })
    names.add(id)
    for (const [place, alias] of aliases.entries()) {
      if (names.has(alias)) faults.push({ path: [...at, "aliases", place], message: "Another model has this name" })
      names.add(alias)
    }
    for (const [place, { apis = [], provider }] of targets.entries()) {
      const unspoken = apis.findIndex((api) => speakers.get(provider)?.apis.has(api) === false)
      if (unspoken >= 0) {
        const path = [...at, "targets", place, "apis", unspoken]
        faults.push({ path, message: "Providers of this dialect have no such API" })
      }
      if (!ids.has(provider)) {
        faults.push({ path: [...at, "targets", place, "provider"], message: "No provider has this id" })
      } else if (kind !== "chat" && (withoutOwn[kind].has(provider) || lacks(apis, ownApis[kind]))) {
        faults.push({ path: [...at, "targets", place, "provider"], message: `This provider has no ${ownApis[kind]}` })
      }
    }
  }
  return faults
}
