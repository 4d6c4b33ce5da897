import { awsModelHosts, awsServiceAt } from "../aws/hosts.ts"
import { type ConfiguredCredential } from "../domain.ts"

const federated = {
  anthropic: ["api.anthropic.com"],
  openai: ["api.openai.com", ".api.openai.com"],
  openrouter: ["openrouter.ai"]
}

/** Hosts by name, by how a name ends that begins with a dot or a hyphen, and AWS's of any region. */
const hostsOf = (credential: ConfiguredCredential): ReadonlyArray<string> | undefined => {
  switch (credential.type) {
    case "key":
      return undefined
    case "aws":
      return awsModelHosts
    case "entra":
      return [".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"]
    case "google":
      return [
        "aiplatform.googleapis.com",
        "-aiplatform.googleapis.com",
        "aiplatform.us.rep.googleapis.com",
        "aiplatform.eu.rep.googleapis.com",
        "claude.googleapis.com"
      ]
    case "federation":
      return federated[credential.vendor]
  }
}

const isOneOf = (hosts: ReadonlyArray<string>, hostname: string): boolean =>
  hosts === awsModelHosts
    ? awsServiceAt(hostname) !== undefined
    : hosts.some((host) => (/^[.-]/.test(host) ? hostname.endsWith(host) : hostname === host))

/** The hosts that a credential may be sent to, where an address is none of them; undefined for one that is. */
export const otherThanHosts = (credential: ConfiguredCredential, baseUrl: URL): ReadonlyArray<string> | undefined => {
  const hosts = hostsOf(credential)
  const isOne =
    hosts === undefined || (baseUrl.protocol === "https:" && baseUrl.port === "" && isOneOf(hosts, baseUrl.hostname))
  return isOne ? undefined : hosts
}
