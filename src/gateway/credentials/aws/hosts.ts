import { type AwsCredential } from "../domain.ts"

/** A service of AWS in a region, as signatures name both. */
export interface AwsService {
  readonly service: string
  readonly region: string
}

/** Hosts that serve models, with the names that signatures have for them; `-fips` and VPC endpoints are the same services. */
const modelHost =
  /^(?:vpce-[a-z0-9-]{1,60}\.)?(bedrock-runtime|bedrock-agent-runtime|bedrock-mantle|aws-external-anthropic)(?:-fips)?\.([a-z]{2,4}(?:-[a-z]{1,12}){1,3}-\d{1,2})\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$/

const signedAs: Readonly<Record<string, string>> = {
  "bedrock-runtime": "bedrock",
  "bedrock-agent-runtime": "bedrock",
  "bedrock-mantle": "bedrock-mantle",
  "aws-external-anthropic": "aws-external-anthropic"
}

/** The service that a host is of; undefined for a host of another kind, which anyone may have at AWS. */
export const awsServiceAt = (hostname: string): AwsService | undefined => {
  const [, name = "", region] = modelHost.exec(hostname) ?? []
  const service = signedAs[name]
  return service === undefined || region === undefined ? undefined : { service, region }
}

/** What requests to an address are signed for: as its host says, or for Bedrock in the region that is given. */
export const awsServiceOf = (baseUrl: string, { region: given }: AwsCredential): AwsService | undefined => {
  const { region, service } = awsServiceAt(URL.parse(baseUrl)?.hostname ?? "") ?? { service: "bedrock" }
  const signedIn = given ?? region
  return signedIn === undefined ? undefined : { service, region: signedIn }
}

/** What hosts of models look like, for an error. */
export const awsModelHosts = [
  "bedrock-runtime.<region>.amazonaws.com",
  "bedrock-mantle.<region>.api.aws",
  "aws-external-anthropic.<region>.api.aws"
]

/** The token service of a region. */
export const awsTokenHost = (region: string): string =>
  `sts.${region}.amazonaws.com${region.startsWith("cn-") ? ".cn" : ""}`
