import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { execFile } from "node:child_process"
import * as fs from "node:fs"
import { getCompileCacheDir } from "node:module"
import * as os from "node:os"
import * as path from "node:path"
import { ClaimLinks } from "../../src/people/sign-in/initial-admin-setup.ts"
import { shareCertificate } from "../support/certificate.ts"
import { urlOf } from "../support/command.ts"
import { makeDatabase } from "../support/database.ts"
import { encryptionKey, serviceKey, startServer } from "../support/service.ts"
import { type Block, type Manual, manuals, root } from "./manuals.ts"

/** Blocks of shell that are not run here, by what a test has not. */
export const notRun: Readonly<Record<string, RegExp>> = {
  "installs and starts, which .ci/run and the tests of the process do": /^npm (?:ci|start|test)\b/m,
  "needs Docker": /docker (?:compose|build|run)/,
  "needs a cluster": /^(?:kubectl|helm)\b/m,
  "makes a release, which its own test does": /^npm run release\b/m,
  "needs a database server of the operator's": /^pg_\w+|^psql|^export DATABASE_URL/m
}

/** The manuals whose sessions take seconds: they generate data or start other servers. */
export const long: ReadonlyArray<string> = [
  "src/agents/README.md",
  "src/audit/README.md",
  "src/insights/README.md",
  "src/people/README.md",
  "src/sandbox/README.md"
]

const isRun = ({ text }: Block) => !Object.values(notRun).some((pattern) => pattern.test(text))

/** A command of a manual, and the answer that is shown below it. */
interface Step {
  readonly command: Block
  readonly shown: string | undefined
}

const stepsOf = ({ blocks }: Manual): ReadonlyArray<Step> =>
  blocks.flatMap((command, index): ReadonlyArray<Step> => {
    if (command.language !== "sh" && command.language !== "ts") return []
    const next = blocks[index + 1]
    const isAnswer = next?.heading === command.heading && next.language !== "sh" && next.language !== "ts"
    return isRun(command) ? [{ command, shown: isAnswer ? next.text : undefined }] : []
  })

const boundary = "----- the next block -----"

/** A block that makes a database of its own gets none from the test. */
const namesItsDatabase = /--Database:Directory=/

/** One shell for all blocks of a manual, so that variables of one hold in the next. */
const scriptOf = (steps: ReadonlyArray<Step>, prelude: string): string =>
  [
    `{ ${prelude.trim()}\n} > /dev/null`,
    ...steps.map(({ command: { language, text } }) => {
      if (language === "ts") return `node --input-type=module-typescript <<'TYPESCRIPT'\n${text}TYPESCRIPT`
      return namesItsDatabase.test(text) ? `( unset DATABASE_URL\n${text})` : text
    })
  ].join(`\nprintf '\\n%s\\n' '${boundary}'\n`)

/** What differs from run to run, by what is put in its place. */
const volatile: ReadonlyArray<readonly [RegExp, string]> = [
  [/http:\/\/127\.0\.0\.1:\d+/g, "URL"],
  [/\/tmp\/tmp\.\w+/g, "DIRECTORY"],
  [/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, "UUID"],
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, "INSTANT"],
  [/\b(?:am[a-z]_[\w-]{12,}|test-service-account-key\S*)/g, "SECRET"],
  [/(?<![\w-])(?:[0-9a-f]{64}|[0-9a-f]{32}|[\w-]{43}|eyJ[\w.-]{40,})(?![\w-])/g, "OPAQUE"],
  [/chatcmpl-[0-9a-f]{32}|msg_[0-9a-f]{32}/g, "ANSWER"],
  [/\b1\d{9}\b/g, "SECONDS"],
  [/(?<="(?:latencyMs|upstreamLatencyMs|durationMs|uptimeSeconds|sequence|checked)":)\d+/g, "COUNT"],
  [/\b\d+(?= (?:entries|faults?)\b)|(?<=\b(?:sequences 1 to|line|sequence|signed at) )\d+/g, "COUNT"],
  [/\b0{10}\d{10}\b/g, "SEQUENCE"],
  [/curl\/[\d.]+/g, "curl"]
]

/** Without what differs from run to run, and without the spaces in which an answer is laid out. */
const settled = (text: string): string =>
  volatile
    .reduce((changed, [pattern, replacement]) => changed.replaceAll(pattern, replacement), text)
    .replaceAll(/\s+/g, "")

/** Whether an answer is the one shown, where `…` is any text. */
const isShown = (answer: string, shown: string): boolean => {
  const text = settled(answer)
  const parts = settled(shown).split("…")
  const last = parts.pop() ?? ""
  let at = 0
  for (const [index, part] of parts.entries()) {
    const found = text.indexOf(part, at)
    if (found < 0 || (index === 0 && found > 0)) return false
    at = found + part.length
  }
  return parts.length === 0 ? text === last : text.length - last.length >= at && text.endsWith(last)
}

const run = (script: string, environment: NodeJS.ProcessEnv) =>
  Effect.callback<{ readonly stdout: string; readonly stderr: string }>((resume) => {
    const child = execFile("bash", ["--norc", "-uc", script], { cwd: root, env: environment }, (_, stdout, stderr) =>
      resume(Effect.succeed({ stdout, stderr }))
    )
    return Effect.sync(() => void child.kill("SIGKILL"))
  })

const preludeOf = ({ blocks }: Manual): string => blocks.find(({ text }) => /^call\(\)/m.test(text))?.text ?? ""
const [readme] = manuals as readonly [Manual]

/** Runs the sessions of some manuals. */
export const checkSessions = (isChecked: (manual: Manual) => boolean): void =>
  layer(Layer.empty, { excludeTestServices: true, timeout: "120 seconds" })(
    "the sessions of the documentation",
    (it) => {
      it.effect.each(
        manuals
          .filter((manual) => stepsOf(manual).length > 0 && isChecked(manual))
          .map((manual) => [manual.file, manual] as const)
      )(
        "%s: each command answers as it says",
        ([, manual]) =>
          Effect.gen(function* () {
            const database = yield* makeDatabase
            const { context, service } = yield* startServer(database, {
              Llm__Gateway__AllowPrivateAddresses: "true",
              Integrations__AllowPrivateAddresses: "true",
              IdentityProviders__AllowPrivateAddresses: "true"
            })
            const tls = yield* Effect.acquireRelease(
              Effect.sync(() => fs.mkdtempSync(path.join(os.tmpdir(), "example-tls-"))),
              (directory) => Effect.sync(() => fs.rmSync(directory, { recursive: true }))
            )
            shareCertificate(tls)
            const claim = Option.getOrThrow(yield* Context.get(context, ClaimLinks).make)
            const secrets: ReadonlyArray<readonly [RegExp, string]> = [
              [/\bams_[\w-]{43}/g, serviceKey],
              [/\bamc_[\w-]{43}/g, Redacted.value(claim).split("#")[1] ?? ""],
              [/http:\/\/127\.0\.0\.1:11402/g, service.url]
            ]
            const given = (text: string) =>
              secrets.reduce((all, [pattern, secret]) => all.replaceAll(pattern, secret), text)
            const steps = stepsOf(manual)
            const script = scriptOf(steps, manual === readme ? "true" : preludeOf(readme))
            const { stderr, stdout } = yield* run(given(script), {
              PATH: `${process.execPath.slice(0, process.execPath.lastIndexOf("/"))}:${process.env.PATH}`,
              HOME: process.env.HOME,
              EXAMPLE_TLS_DIR: tls,
              NODE_COMPILE_CACHE: getCompileCacheDir(),
              DATABASE_URL: urlOf(database),
              Security__EncryptionKey: encryptionKey,
              APPLICATION_MANAGER_API_KEY: serviceKey
            })
            const answers = stdout.split(boundary).slice(1)
            for (const [index, { command, shown }] of steps.entries()) {
              const answer = answers[index] ?? ""
              const told = `${manual.file}, "${command.heading}":\n${command.text}\n${stderr}`
              if (shown === undefined) assert.notInclude(answer, "urn:application-manager:problem", told)
              else if (!isShown(answer, shown)) assert.strictEqual(answer, shown, told)
            }
          }).pipe(Effect.scoped),
        120_000
      )
    }
  )
