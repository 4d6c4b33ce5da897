import manifest from "../../../package.json" with { type: "json" }

export const serviceName = manifest.name
export const serviceVersion = manifest.version
