import { conventionNames } from "../../src/gateway/telemetry/conventions.ts"

const cell = (name: string | null): string => (name === null ? "" : `\`${name}\``)

/** The names that differ between OpenTelemetry's conventions for generative AI, for the manual. */
export const conventionsTable = [
  "| What | v1.41, by default | v0.1.0, with the opt-in |",
  "| --- | --- | --- |",
  ...Object.values(conventionNames).map(({ before, since, what }) => `| ${what} | ${cell(before)} | ${cell(since)} |`)
].join("\n")
