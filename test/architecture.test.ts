import { assert, describe, it } from "@effect/vitest"
import * as fs from "node:fs"
import * as path from "node:path"
import { floors } from "../oxlint.config.ts"
import { Dialect, operations } from "../src/gateway/formats/domain.ts"

const root = path.resolve(import.meta.dirname, "../src")
const all = fs.readdirSync(root, { recursive: true, encoding: "utf8" }).filter((file) => /\.tsx?$/.test(file))
/** The program that runs in browsers and its build, a client of the API like any other. */
const isClient = (file: string): boolean =>
  file.startsWith("console/web/") || file === "console/build.ts" || file === "console/declarations.ts"
const files = all.filter((file) => !isClient(file))
const sources = new Map(files.map((file) => [file, fs.readFileSync(path.join(root, file), "utf8")]))
const sourceOf = (file: string): string => sources.get(file) ?? ""

const composition = new Set(["main.ts", "server.ts"])

type Kind = "composition" | "groups" | "kernel" | "platform" | "domain" | "api" | "repository" | "handlers" | "service"

const areaOf = (file: string): string => (file.includes("/") ? (file.split("/")[0] ?? "") : "")
const folderOf = (file: string): string => path.dirname(file)
const floorOf = (file: string): number => (areaOf(file) === "" ? floors.length : floors.indexOf(areaOf(file)))

/** What a file is, by its name; in a feature whatever is none of the named four is a service. */
const kindOf = (file: string): Kind => {
  if (composition.has(file) || areaOf(file) === "cli" || path.basename(file) === "layers.ts") return "composition"
  if (file === "api.ts" || path.basename(file) === "groups.ts") return "groups"
  const area = areaOf(file)
  // A second repository or API of a folder is named after what it keeps: `tree-repository.ts`.
  const name = path.basename(file, ".ts").split("-").at(-1)
  if (area === "kernel") return "kernel"
  if (name === "domain" || name === "api" || name === "repository" || name === "handlers") return name
  return area === "platform" ? "platform" : "service"
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

const own = (from: string, to: string): boolean => folderOf(from) === folderOf(to)

/** Declarations of middleware, which the endpoints of other features use. */
const middlewares = new Set(["platform/idempotency/api.ts", "budgets/ledger/api.ts"])

/** Whether a file may import another one, by what both are. */
const mayImport = (from: string, to: string): boolean => {
  const kind = kindOf(to)
  if (kind === "kernel") return true
  switch (kindOf(from)) {
    case "composition":
      return true
    case "groups":
      return kind === "api" || (from === "api.ts" && kind === "groups")
    case "kernel":
      return false
    case "platform":
      return kind === "platform" || kind === "domain" || kind === "repository" || kind === "api"
    case "domain":
      return kind === "domain"
    case "api":
      return kind === "domain" || (kind === "api" && middlewares.has(to))
    case "repository":
      return kind === "domain" || (kind === "repository" && areaOf(from) === areaOf(to)) || isDatabase(to)
    case "handlers":
      return (
        kind === "domain" ||
        (kind === "api" && (own(from, to) || middlewares.has(to))) ||
        (kind === "service" && areaOf(from) === areaOf(to)) ||
        isHttp(to)
      )
    case "service":
      return (
        kind === "domain" ||
        kind === "service" ||
        kind === "platform" ||
        (kind === "repository" && areaOf(from) === areaOf(to)) ||
        (kind === "api" && own(from, to))
      )
  }
}

const isDatabase = (file: string): boolean => folderOf(file) === "platform/database"
const isHttp = (file: string): boolean => folderOf(file) === "platform/http" || folderOf(file) === "platform/fast-path"

const pure = /^effect(?:$|\/(?!sql$))/
const packages: Partial<Record<Kind, RegExp>> = {
  kernel: pure,
  domain: pure,
  api: pure,
  groups: pure,
  handlers: pure,
  // A repository may keep what it has read.
  repository: /^(?:effect(?:$|\/)|lru-cache$)/
}

/** The first path from a node back to itself, if there is one. */
const cycleFrom = (
  start: string,
  next: (node: string) => Iterable<string>,
  longest = Infinity
): ReadonlyArray<string> | undefined => {
  const seen = new Set<string>()
  const walk = (node: string, path: ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
    for (const to of next(node)) {
      if (to === start) return [...path, to]
      if (seen.has(to) || path.length > longest) continue
      seen.add(to)
      const found = walk(to, [...path, to])
      if (found !== undefined) return found
    }
    return undefined
  }
  return walk(start, [start])
}

const folders = new Map<string, Set<string>>()
for (const file of files) {
  const from = folderOf(file)
  const reached = folders.get(from) ?? new Set()
  for (const to of importsOf(file)) if (folderOf(to) !== from) reached.add(folderOf(to))
  folders.set(from, reached)
}

const sqlTemplate =
  /\bsql`|\b\w+`\s*(?:SELECT|INSERT|UPDATE|DELETE|WITH|CREATE|ALTER|DROP|TRUNCATE|GRANT|REVOKE|SET|LISTEN|NOTIFY)\b/
const writingSql =
  /\b(?:INSERT\s+INTO|UPDATE\s+\w+\s+(?:\w+\s+)?SET|DELETE\s+FROM)\b|\b(?:model|table)\.(?:insert|update|delete)\b/

/** The database itself: its tables, the rows that a transaction sees, and the notifications between replicas. */
const sqlInPlatform = "platform/database"

/** What is not recorded by an entry: the log itself, and what is stored beside a change or charge that records itself. */
const writesWithoutEntry = [
  "access/capability-uses-",
  "audit/",
  "platform/idempotency/",
  "gateway/batches/",
  "gateway/conversations/",
  "gateway/transcripts/",
  "events/deliveries/repository.ts",
  "insights/usage-export/repository.ts",
  "insights/reconciliation/repository.ts"
]

/** A comparison with a dialect or an operation of the gateway, which its format decides (`gateway/formats/README.md`). */
const namesOfFormats = [...Dialect.literals, ...operations].filter((name) => name !== "chat")
const formatNames = new RegExp(`(?<!vendor )(?:[!=]== |case )"(?:${namesOfFormats.join("|")})"`)

/** The handlers of requests that `npm run bench`, `bench:ledger` and `bench:gateway` send, and of native gateway calls. */
const measured = new Set([
  "budgets/reservations/handlers.ts",
  "gateway/wire/native/handlers.ts",
  "agents/agent-credentials/handlers.ts",
  "agents/oauth/handlers.ts",
  "people/sign-in/handlers.ts",
  "trials/users/handlers.ts",
  "operations/health/handlers.ts"
])

describe.each(files)("src/%s", (file) => {
  it("imports from its own floor and those below", () => {
    for (const to of importsOf(file)) {
      assert.isTrue(sources.has(to), `${to} is no source file`)
      assert.isAtLeast(floorOf(to), 0, `${to} is in no area`)
      assert.isAtLeast(floorOf(file), 0, `${areaOf(file)} is not in floors of oxlint.config.ts`)
      assert.isTrue(
        floorOf(file) >= floorOf(to),
        `${areaOf(file)} may not import from ${areaOf(to)}, a floor above it: ${to}`
      )
      assert.isTrue(mayImport(file, to), `${kindOf(file)} ${file} imports ${kindOf(to)} ${to}`)
    }
  })

  it("imports only the packages that its kind may use", () => {
    const allowed = packages[kindOf(file)]
    for (const name of packagesOf(file)) assert.isTrue(allowed?.test(name) ?? true, `${kindOf(file)} imports ${name}`)
  })

  it("imports nothing that imports it", () => {
    assert.isUndefined(cycleFrom(file, importsOf))
  })

  it("builds the handlers of a group with groupHandlers, and of the groups that benchmarks measure on the fast path", () => {
    if (kindOf(file) !== "handlers") return
    assert.notInclude(sourceOf(file), "HttpApiBuilder.group(")
    assert.strictEqual(sourceOf(file).includes("fastGroupHandlers("), measured.has(file))
  })

  it("compares with the name of no wire format outside of the folder of that format", () => {
    if (!file.startsWith("gateway/") || /^gateway\/formats\/[a-z-]+\//.test(file)) return
    assert.notMatch(sourceOf(file), formatNames)
  })

  it("writes functions that are generators with Effect.fn or Effect.fnUntraced", () => {
    // One with type parameters is inferred by neither.
    const wrapped = sourceOf(file).match(/^.*=>\s*Effect\.gen\(/gm) ?? []
    assert.isEmpty(wrapped.filter((line) => !line.includes("= <")))
  })

  it("has a name that says what it is", () => {
    for (const segment of file.slice(0, -".ts".length).split("/")) {
      assert.match(segment, /^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/)
      assert.notMatch(segment, /^(?:index|utils?|helpers?|types|common|misc|shared)$/)
    }
  })

  it("has SQL only in repositories, and reads results through schemas", () => {
    const source = sourceOf(file)
    const mayHaveSql = kindOf(file) === "repository" || folderOf(file) === sqlInPlatform
    if (!mayHaveSql) assert.notMatch(source, sqlTemplate)
    assert.notMatch(source, /\bsql</)
    if (!mayHaveSql || folderOf(file) === sqlInPlatform || !writingSql.test(source)) return
    if (writesWithoutEntry.some((folder) => file.startsWith(folder))) return
    assert.match(source, /import \{[^}]*\bChange\b[^}]*\} from "[^"]*audit\/log\/domain\.ts"/, "writes without Change")
  })
})

describe.each([...folders.keys()])("src/%s/", (folder) => {
  it("imports no folder that imports it", () => {
    assert.isUndefined(cycleFrom(folder, (node) => folders.get(node) ?? []))
  })

  it("is a room", () => {
    const inside = files.filter((file) => folderOf(file) === folder)
    if (folder !== "." && folder !== "kernel") assert.isAtMost(inside.length, 18, inside.join(", "))
  })
})

describe("src", () => {
  it("has no import that these tests overlook", () => {
    for (const [file, source] of sources) {
      const written = [...source.matchAll(/^(?:import|export|\}).* from "|^import "|\bimport\("/gm)]
      assert.strictEqual(specifiersOf(file).length, written.length, file)
    }
  })

  it("has the composition and the Api at its top, and areas", () => {
    const top = files.filter((file) => !file.includes("/"))
    assert.sameMembers(top, [...composition, "api.ts"])
    assert.sameMembers([...new Set(files.filter((file) => file.includes("/")).map(areaOf))], floors)
  })

  it("is composed of areas: server.ts and api.ts name no feature", () => {
    for (const to of importsOf("server.ts")) {
      if (to === "api.ts" || areaOf(to) === "platform") continue
      assert.strictEqual(path.basename(to), "layers.ts", `${to} belongs in the layers.ts of its area`)
    }
    for (const to of importsOf("api.ts")) {
      if (areaOf(to) === "kernel") continue
      assert.strictEqual(path.basename(to), "groups.ts", `${to} belongs in the groups.ts of its area`)
    }
  })

  it("has every handlers in the layers of its area, and every api in its groups", () => {
    for (const file of files) {
      const list = new Map([
        ["handlers.ts", "layers.ts"],
        ["api.ts", "groups.ts"]
      ]).get(path.basename(file))
      if (list === undefined || file === "api.ts" || middlewares.has(file)) continue
      assert.include(importsOf(path.join(areaOf(file), list)), file)
    }
  })

  it("corrects JSON.parse before all else in each program", () => {
    const { scripts } = JSON.parse(fs.readFileSync(path.join(root, "../package.json"), "utf8")) as {
      scripts: Record<string, string>
    }
    const programs = Object.values(scripts).flatMap(
      (script) => /\bnode .*?(?<!import \.\/)\bsrc\/(\S+)/.exec(script)?.[1] ?? []
    )
    assert.includeMembers(programs, ["main.ts", "cli/operator.ts"])
    for (const file of [...programs.filter((file) => !isClient(file)), "platform/runtime/worker-process-body.ts"]) {
      assert.match(specifiersOf(file)[0] ?? "", /\/json-parse\.ts$/, file)
    }
  })

  it("has an api beside every handlers", () => {
    for (const file of files.filter((file) => path.basename(file) === "handlers.ts")) {
      assert.isTrue(sources.has(path.join(folderOf(file), "api.ts")), file)
    }
  })
})

describe.each(all.filter((file) => file.startsWith("console/web/")))("src/%s", (file) => {
  it("takes nothing of the service but the types of its API", () => {
    const source = fs.readFileSync(path.join(root, file), "utf8")
    for (const [statement, name = ""] of source.matchAll(/^import\s[^"]*"([^"]+)"/gm)) {
      if (!name.startsWith(".")) {
        assert.isFalse(/^(?:node:|effect|@effect)/.test(name) && !statement.startsWith("import type "), statement)
        continue
      }
      const target = path.join(path.dirname(file), name)
      assert.isTrue(target.startsWith("console/web/") || statement.startsWith("import type "), statement)
    }
  })
})

const clients = all.filter(isClient)
const known = new Set(all)
/** Every file that a file of the console names: imported, loaded when it is needed, or run in a thread of its own. */
const namedBy = (file: string): ReadonlyArray<string> =>
  Array.from(
    fs
      .readFileSync(path.join(root, file), "utf8")
      .matchAll(/\bfrom "([^"]+)"|^import "([^"]+)"|\bimport\("([^"]+)"\)|\bnew URL\("([^"]+)", import\.meta\.url\)/gm),
    ([, ...names]) => path.join(path.dirname(file), names.find((name) => name !== undefined) ?? "")
  ).filter((named) => known.has(named))
const named = new Map(clients.map((file) => [file, namedBy(file)]))

describe("src/console", () => {
  it("has no circle of files, also none that `import()` closes, which lint does not see", () => {
    // All circles at once, since each is seen from every file on it.
    const circles = clients.flatMap((file) => cycleFrom(file, (node) => named.get(node) ?? [])?.join(" -> ") ?? [])
    assert.deepStrictEqual(circles, [])
  })

  it("draws the imports that a circle would need", () => {
    const edges = new Set(
      [...named].flatMap(([from, all]) => all.map((to) => `${path.basename(from)} ${path.basename(to)}`))
    )
    const kinds = [
      "main.tsx routes.tsx",
      "routes.tsx caps.tsx",
      "editor.tsx syntax-worker.ts",
      "build.ts declarations.ts"
    ]
    for (const edge of kinds) assert.isTrue(edges.has(edge), edge)
  })
})

describe("a service", () => {
  it("has a key that begins with its area", () => {
    const others = files.flatMap((file) =>
      Array.from(sourceOf(file).matchAll(/"app\/([\w-]+)\/[\w-]+"/g))
        .filter(([, area]) => area !== areaOf(file))
        .map(([key]) => `${file}: ${key}`)
    )
    assert.deepStrictEqual(others, [])
  })
})
