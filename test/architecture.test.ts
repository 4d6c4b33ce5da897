import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"

const root = path.resolve(import.meta.dirname, "../../src")
const files = fs.readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".ts"))
const sources = new Map(files.map((file) => [file, fs.readFileSync(path.join(root, file), "utf8")]))
const sourceOf = (file: string): string => sources.get(file) ?? ""

type Kind =
  | "composition"
  | "root api"
  | "kernel"
  | "platform"
  | "domain"
  | "api"
  | "repository"
  | "handlers"
  | "service"

const composition = new Set([
  "main.ts",
  "server.ts",
  "migrate.ts",
  "operator.ts",
  "audit-verify.ts",
  "ledger-verify.ts"
])

/** What a file is by where it stands; in a feature, whatever is none of the other four counts as a service. A second repository is named after what it keeps. */
const kindOf = (file: string): Kind => {
  if (composition.has(file)) return "composition"
  if (file === "api.ts") return "root api"
  const [folder] = file.split("/")
  if (folder === "kernel" || folder === "platform") return folder
  // A feature with more of a kind than one file says which: `tree-repository.ts`.
  const name = path.basename(file, ".ts").split("-").at(-1)
  return name === "domain" || name === "api" || name === "repository" || name === "handlers" ? name : "service"
}

const specifier = /^(?:import|export)\s(?:[^"]*?\sfrom\s)?"([^"]+)"|\bimport\("([^"]+)"\)/gm

const specifiersOf = (file: string): ReadonlyArray<string> =>
  Array.from(sourceOf(file).matchAll(specifier), ([, declared, loaded]) => declared ?? loaded ?? "")

const importsOf = (file: string): ReadonlyArray<string> =>
  specifiersOf(file)
    .filter((specifier) => specifier.startsWith(".") && specifier.endsWith(".ts"))
    .map((specifier) => path.join(path.dirname(file), specifier))

const packagesOf = (file: string): ReadonlyArray<string> =>
  specifiersOf(file).filter((specifier) => !specifier.startsWith("."))

const featureOf = (file: string): string => path.dirname(file).split("/")[0] ?? ""
const own = (from: string, to: string): boolean => featureOf(from) === featureOf(to)

/** What declares a middleware, which the endpoints of other features stand behind. */
const middlewares = new Set(["auth/api.ts", "idempotency/api.ts", "ledger/charges-api.ts"])

/** Whether a file may import another one, by what both are. */
const mayImport = (from: string, to: string): boolean => {
  const kind = kindOf(to)
  switch (kindOf(from)) {
    case "composition":
      return true
    case "root api":
      return kind === "kernel" || kind === "api"
    case "kernel":
      return kind === "kernel"
    case "platform":
      return kind === "kernel" || kind === "platform" || kind === "root api"
    case "domain":
      return kind === "kernel" || kind === "domain"
    case "api":
      return kind === "kernel" || kind === "domain" || (kind === "api" && middlewares.has(to))
    case "repository":
      return kind === "kernel" || kind === "domain" || (kind === "repository" && own(from, to))
    case "handlers":
      return kind === "kernel" || kind === "domain" || kind === "root api" || (kind === "service" && own(from, to))
    case "service":
      return (
        kind === "kernel" ||
        kind === "domain" ||
        kind === "service" ||
        kind === "platform" ||
        // Its own repository, and the declaration of the middleware that it implements.
        ((kind === "repository" || kind === "api") && own(from, to))
      )
  }
}

const pure = /^effect(?:$|\/(?!sql$))/
const packages: Partial<Record<Kind, RegExp>> = {
  kernel: pure,
  domain: pure,
  api: pure,
  "root api": pure,
  handlers: pure,
  repository: /^effect(?:$|\/)/
}

/** The first way from a file back to itself, if there is one. */
const cycleFrom = (start: string): ReadonlyArray<string> | undefined => {
  const seen = new Set<string>()
  const walk = (file: string, way: ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
    for (const next of importsOf(file)) {
      if (next === start) return [...way, next]
      if (seen.has(next)) continue
      seen.add(next)
      const found = walk(next, [...way, next])
      if (found !== undefined) return found
    }
    return undefined
  }
  return walk(start, [start])
}

const sqlTemplate =
  /\bsql`|\b\w+`\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|TRUNCATE|GRANT|REVOKE|SET|LISTEN|NOTIFY)\b/
const writingSql =
  /\b(?:INSERT\s+INTO|UPDATE\s+\w+\s+(?:\w+\s+)?SET|DELETE\s+FROM)\b|\bmodel\.(?:insert|update|delete)\b/

/** Whose statements are no feature's: the tables themselves, whose rows a transaction sees, and what replicas tell each other. */
const sqlInPlatform = new Set(["platform/migrations.ts", "platform/database.ts", "platform/notifications.ts"])

/** The log itself, and what is kept beside a change or a charge that records itself. */
const writesWithoutEntry = new Set(["audit", "idempotency", "gateway-contents"])

describe.each(files)("src/%s", (file) => {
  it("imports only what stands below it", () => {
    for (const to of importsOf(file)) {
      assert.isTrue(sources.has(to), `${to} is no source file`)
      assert.isTrue(mayImport(file, to), `${kindOf(file)} ${file} imports ${kindOf(to)} ${to}`)
    }
  })

  it("imports only the packages that its kind may use", () => {
    const allowed = packages[kindOf(file)]
    for (const name of packagesOf(file)) assert.isTrue(allowed?.test(name) ?? true, `${kindOf(file)} imports ${name}`)
  })

  it("imports nothing that imports it", () => {
    assert.isUndefined(cycleFrom(file))
  })

  it("makes the handlers of a group in the one way that costs a request nothing", () => {
    if (kindOf(file) === "handlers") assert.notInclude(sourceOf(file), "HttpApiBuilder.group(")
  })

  it("says what it is by its name, and is short", () => {
    for (const segment of file.slice(0, -".ts".length).split("/")) {
      assert.match(segment, /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/)
      assert.notMatch(segment, /^(?:index|utils?|helpers?|types|common|misc|shared)$/)
    }
    assert.isAtMost(sourceOf(file).split("\n").length - 1, 300, "lines")
  })

  it("has statements only where they belong, and reads their answers by schemas", () => {
    const source = sourceOf(file)
    if (kindOf(file) !== "repository" && !sqlInPlatform.has(file)) assert.notMatch(source, sqlTemplate)
    assert.notMatch(source, /\bsql</)
    if (kindOf(file) !== "repository" || !writingSql.test(source) || writesWithoutEntry.has(featureOf(file))) return
    assert.match(source, /import \{[^}]*\bChange\b[^}]*\} from "\.\.\/audit\/domain\.ts"/, "writes without Change")
  })
})

describe("src", () => {
  it("has no import that these tests overlook", () => {
    for (const [file, source] of sources) {
      const written = [...source.matchAll(/^(?:import|export|\}).* from "|^import "|\bimport\("/gm)]
      assert.strictEqual(specifiersOf(file).length, written.length, file)
    }
  })

  it("has the compositions and the Api at its top, and folders", () => {
    const top = files.filter((file) => !file.includes("/"))
    assert.sameMembers(top, [...composition, "api.ts"])
  })

  it("has a domain in every feature, and an api for whatever has handlers", () => {
    const features = new Set(files.filter((file) => file.includes("/")).map(featureOf))
    for (const feature of features) {
      if (feature === "kernel" || feature === "platform") continue
      assert.isTrue(sources.has(`${feature}/domain.ts`), `${feature}/domain.ts`)
      if (sources.has(`${feature}/handlers.ts`)) assert.isTrue(sources.has(`${feature}/api.ts`), `${feature}/api.ts`)
    }
  })
})
