import { type ConfiguredCredential } from "./domain.ts"

/** Hosts by name, and by how a name ends that begins with a dot or a hyphen. */
const hostsOf = (credential: ConfiguredCredential): ReadonlyArray<string> | undefined => {
  switch (credential.type) {
    case "key":
      return undefined
    case "entra":
      return [".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com"]
    case "aws":
      return [".amazonaws.com", ".amazonaws.com.cn", ".api.aws"]
    case "google":
      return [
        "aiplatform.googleapis.com",
        "-aiplatform.googleapis.com",
        "aiplatform.us.rep.googleapis.com",
        "aiplatform.eu.rep.googleapis.com",
        "claude.googleapis.com"
      ]
    case "federation":
      return credential.vendor === "anthropic" ? ["api.anthropic.com"] : ["api.openai.com", ".api.openai.com"]
  }
}

/** The hosts that a credential may be sent to, where an address is none of them; undefined for one that is. */
export const otherThanHosts = (credential: ConfiguredCredential, baseUrl: URL): ReadonlyArray<string> | undefined => {
  const hosts = hostsOf(credential)
  const isOne =
    hosts === undefined ||
    (baseUrl.protocol === "https:" &&
      baseUrl.port === "" &&
      hosts.some((host) => (/^[.-]/.test(host) ? baseUrl.hostname.endsWith(host) : baseUrl.hostname === host)))
  return isOne ? undefined : hosts
}
