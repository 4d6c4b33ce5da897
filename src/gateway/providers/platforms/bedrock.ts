import { awsEncoded } from "../../../platform/outbound/aws-signature.ts"
import { type ProviderApi } from "../../formats/domain.ts"
import { mergePatch, edited, placesIn } from "../../json/json-edits.ts"
import { type Platform } from "../platform.ts"
import { withVendorStatus } from "./bedrock-errors.ts"
import { asServerEvents } from "./bedrock-stream.ts"

/**
 * What Bedrock calls Anthropic's first version (Amazon Bedrock User Guide, "Anthropic Claude Messages API"). Later ones have
 * their own names there, as Anthropic's client for Bedrock sends them.
 */
const firstVersion = "bedrock-2023-05-31"
const versionIn = (header: string | undefined) =>
  header === undefined || header === "2023-06-01" ? firstVersion : header

/** What every model there has; some have responses besides. */
const served: ReadonlySet<ProviderApi> = new Set(["chat"])
/** The dialects whose formats models are invoked with. */
export const invokedDialects: ReadonlySet<string> = new Set(["anthropic"])
/** The dialects whose models it lists. */
const listed: ReadonlySet<string> = new Set(["openai"])

const authorize = (apiKey: string) => ({ authorization: `Bearer ${apiKey}` })

/**
 * Bedrock's own paths for OpenAI's and Anthropic's formats (Amazon Bedrock User Guide, "Endpoints supported by Amazon
 * Bedrock"). `counts` says whether it counts tokens there.
 */
const bedrockNative = (counts: boolean): Platform => ({
  apis: served,
  request: (format, model, streams, request) =>
    format.isCount && !counts ? undefined : { ...request, path: format.pathOf(model, streams) },
  answer: withVendorStatus,
  authorize,
  keeps: false
})

const utf8 = new TextEncoder()

/** A message's body for a model of the path. */
const invocationBody = (
  given: string | Uint8Array,
  version: string | undefined,
  betas: string | undefined
): Uint8Array => {
  const json = typeof given === "string" ? utf8.encode(given) : given
  const members = Object.fromEntries(placesIn(json).flatMap(({ name }) => (name === undefined ? [] : [[name, true]])))
  const named = betas?.split(",").flatMap((beta) => (beta.trim() === "" ? [] : [beta.trim()])) ?? []
  const changes = {
    model: null,
    stream: null,
    anthropic_version: versionIn(version),
    ...(named.length === 0 ? {} : { anthropic_beta: named })
  }
  return edited(json, mergePatch(json, members, changes))
}

/** InvokeModel and InvokeModelWithResponseStream (Amazon Bedrock API reference), for Anthropic's messages. */
const bedrockInvocation: Platform = {
  apis: served,
  request: (format, model, streams, { body, headers }) => {
    if (!invokedDialects.has(format.dialect) || format.isCount) return undefined
    const { "anthropic-beta": betas, "anthropic-version": version, ...rest } = headers
    return {
      path: `/model/${awsEncoded(model)}/${streams ? "invoke-with-response-stream" : "invoke"}`,
      headers: { ...rest, accept: streams ? "application/vnd.amazon.eventstream" : "application/json" },
      body: invocationBody(body, version, betas)
    }
  },
  headers: {},
  answer: (answer) => withVendorStatus(asServerEvents(answer)),
  authorize,
  keeps: false,
  modelsPath: null
}

/** How Bedrock serves a vendor's formats at an address. */
export const bedrockPlatform = (baseUrl: string, surface: "invoke" | undefined, dialect: string): Platform => {
  if (surface === "invoke") return bedrockInvocation
  const native = bedrockNative(URL.parse(baseUrl)?.hostname.startsWith("bedrock-runtime") !== true)
  return listed.has(dialect) ? native : { ...native, modelsPath: null }
}
