import { type Authorization, type Vendor, vendors } from "../../src/gateway/configuration/vendors-domain.ts"

const names: Readonly<Record<Authorization, string>> = {
  key: "a key",
  none: "nothing",
  aws: "`aws`",
  entra: "`entra`",
  google: "`google`",
  "federation:anthropic": "`federation`",
  "federation:openai": "`federation`",
  "federation:openrouter": "`federation`"
}

const quirksOf = ({ apis, platform, reportsCost }: Vendor): string =>
  [
    ...(platform === undefined ? [] : [`\`platform: ${platform}\``]),
    ...(apis === undefined ? [] : [`\`apis\`: ${apis.join(", ")}`]),
    ...(reportsCost === undefined ? [] : [`\`reportsCost: ${reportsCost}\``])
  ].join("; ")

/** The vendors that a provider can be added of by name, in a Markdown table. */
export const vendorReference: string = [
  "| Vendor | Dialect | Base URL | Besides | Authorized by |",
  "| --- | --- | --- | --- | --- |",
  ...vendors.map((vendor) => {
    const { authorizations = ["key"], baseUrl, dialect, name, regions = {} } = vendor
    const addresses = [baseUrl, ...Object.values(regions)].map((one) => `\`${one}\``).join(", ")
    const by = authorizations.map((one) => names[one]).join(", ")
    return `| ${name} | \`${dialect}\` | ${addresses} | ${quirksOf(vendor)} | ${by} |`
  })
].join("\n")
