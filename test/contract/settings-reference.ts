import { type Default } from "../../src/platform/settings/settings-reader.ts"
import { settingAliases, settingsTable } from "../../src/platform/settings/settings.ts"

const defaultMarkdown = (fallback: Default | undefined): string => {
  if (fallback === undefined || Array.isArray(fallback)) return "none"
  return typeof fallback === "object" && "Development" in fallback
    ? `\`${fallback.Development}\` (Development), \`${fallback.Production}\` (Production)`
    : `\`${fallback.toString()}\``
}

/** A Markdown table of every setting: key, form, default and meaning. */
export const settingsMarkdown: string = [
  "| Setting | Value | Default | Meaning |",
  "| --- | --- | --- | --- |",
  ...Object.entries(settingsTable).map(([key, { expected, secret, default: fallback, description }]) => {
    const also = Object.keys(settingAliases).filter((variable) => settingAliases[variable] === key)
    const meaning = [description, ...also.map((variable) => `also \`${variable}\``)].join("; ")
    return `| \`${key}\` | ${secret ? "secret: " : ""}${expected} | ${defaultMarkdown(fallback)} | ${meaning} |`
  })
].join("\n")
