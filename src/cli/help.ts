import { serviceVersion } from "../platform/runtime/version.ts"
import { type Default } from "../platform/settings/settings-reader.ts"
import { settingAliases, settingsTable } from "../platform/settings/settings.ts"

const defaultText = (fallback: Default | undefined): string => {
  if (fallback === undefined || Array.isArray(fallback)) return "none"
  return typeof fallback === "object" && "Development" in fallback
    ? `${fallback.Development}; in Production ${fallback.Production}`
    : fallback.toString()
}

const settingLines = Object.entries(settingsTable).map(([key, { default: fallback, description, expected }]) => {
  const also = Object.keys(settingAliases).filter((variable) => settingAliases[variable] === key)
  const meaning = [description, ...also.map((variable) => `also ${variable}`)].join("; ")
  return `  ${key}\n      ${meaning}.\n      ${expected}; default: ${defaultText(fallback)}`
})

const help = `Application Manager ${serviceVersion}: identity, configuration, audit, budgets and a gateway to language models.

npm start                          runs the service; Ctrl+C stops it
npm start -- --Api:Port=8080       with a setting; as an environment variable: Api__Port=8080 npm start
npm start -- --demo                with data to look at, in the directory .demo; npm run demo:purge removes them
npm run migrate                    applies the migrations and ends
npm run operator -- --help         claims the installation, creates accounts, changes passwords
npm start -- --help, --version     prints this, or the version

APP_ENVIRONMENT is Development (the default) or Production. Settings come from appsettings.json,
appsettings.<Environment>.json, environment variables and the command line; later ones win. A secret may also
come from a file: Api__ApiKey__File=/run/secrets/key.

${settingLines.join("\n")}
`

/** Runs a command that takes settings, unless its arguments ask for this help or the version. */
export const runOrHelp = (run: (args: ReadonlyArray<string>) => void): void => {
  const args = process.argv.slice(2)
  if (args.includes("--help") || args.includes("-h")) process.stdout.write(help)
  else if (args.includes("--version") || args.includes("-v")) process.stdout.write(`${serviceVersion}\n`)
  else run(args)
}
