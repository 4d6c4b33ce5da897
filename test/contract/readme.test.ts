import { assert, describe, it, vi } from "@effect/vitest"
import { Effect, Option, Redacted } from "effect"
import { HttpServer } from "effect/http"
import { NetAddress } from "effect/net"
import * as fs from "node:fs"
import * as path from "node:path"
import { printBanner } from "../../src/cli/banner.ts"
import { DatabaseConnection } from "../../src/platform/database/connection.ts"
import { Settings } from "../../src/platform/settings/settings.ts"
import { operations } from "./document.ts"
import { anchorsIn, type Manual, manuals, root } from "./manuals.ts"
import { mustsMarkdown } from "./musts.ts"
import { tableIn, tables } from "./tables.ts"

const cells = (text: string) =>
  text
    .trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim().replace(/^-+$/, "-")))

describe("generated tables", () => {
  it("the table of settings is the one that the service reads", () => {
    assert.deepStrictEqual(cells(tableIn("settings")), cells(tables.settings!))
  })

  it("the reference of the gateway's configuration is the one that its schema makes", () => {
    assert.deepStrictEqual(cells(tableIn("gateway-configuration")), cells(tables["gateway-configuration"]!))
  })

  it("the table of telemetry's names has those that are written", () => {
    assert.deepStrictEqual(cells(tableIn("gateway-telemetry")), cells(tables["gateway-telemetry"]!))
  })

  it("the table of vendors is the one that the console's form has", () => {
    assert.deepStrictEqual(cells(tableIn("gateway-vendors")), cells(tables["gateway-vendors"]!))
  })

  it("the table of what RFCs demand is the one that the tests make", () => {
    const stored = fs.readFileSync(path.join(root, "test/contract/musts.md"), "utf8")
    assert.deepStrictEqual(cells(stored), cells(mustsMarkdown))
  })
})

it("the paths of every feature stand in a manual", () => {
  const features = new Set(operations.map(({ path }) => path.split("/").slice(0, 3).join("/")))
  const own = [...features].filter((path) => path.startsWith("/api/"))
  assert.isAbove(own.length, 20)
  assert.deepStrictEqual(
    own.filter((path) => !manuals.some(({ text }) => text.includes(path))),
    [],
    "name them in the README.md of their area"
  )
})

/** Links of a manual within the project, without those in blocks of code. */
const linksIn = ({ text }: Manual) =>
  Array.from(
    text.replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/\]\(([^)\s]+)\)/g),
    ([, target = ""]) => target
  ).filter((target) => !/^[a-z]+:/.test(target))

const fileOf = (from: Manual, target: string): string =>
  path.posix.join(path.posix.dirname(from.file), target === "" ? path.posix.basename(from.file) : target)

/** Paths of the project that a manual names; a place holder such as `<area>` or `things` stands for one of the reader's. */
const pathsIn = ({ text }: Manual) =>
  Array.from(
    text.matchAll(/(?<![\w/.<-])(?:src|test|migrations|deploy)\/[\w./<>*-]*[\w*>]/g),
    ([found]) => found
  ).filter((found) => !/[<>*]|things|NNNN/.test(found))

/** Names that every feature has a file of. */
const generic = new Set(["domain.ts", "api.ts", "repository.ts", "service.ts", "handlers.ts"])

/** Files that the manual of an area names from its own folder or from `src`, such as `http/edge.ts`. */
const filesIn = ({ file, text }: Manual) =>
  file.split("/").length < 3
    ? []
    : Array.from(text.matchAll(/`((?:\.\.\/)*[a-z][\w-]*(?:\/[\w-]+)*\.(?:ts|sql))`/g), ([, found = ""]) => found)
        .filter(
          (found) => !/^(?:src|test|migrations|deploy)\//.test(found) && !generic.has(found) && found !== "hello.ts"
        )
        .filter((found) => !fs.existsSync(path.join(root, "src", found)))
        .map((found) => path.posix.join(path.posix.dirname(file), found))

describe.each(manuals.map((manual) => [manual.file, manual] as const))("%s", (file, manual) => {
  it("links to files and headings that exist", () => {
    const broken = linksIn(manual).filter((link) => {
      const [target = "", anchor] = link.split("#")
      const linked = fileOf(manual, target)
      if (!fs.existsSync(path.join(root, linked))) return true
      if (anchor === undefined) return false
      const other = manuals.find((one) => one.file === linked)
      return other === undefined || !anchorsIn(other).has(anchor)
    })
    assert.deepStrictEqual(broken, [])
  })

  it("names paths that exist", () => {
    const missing = [...pathsIn(manual), ...filesIn(manual)].filter((found) => !fs.existsSync(path.join(root, found)))
    assert.deepStrictEqual([...new Set(missing)], [])
  })

  it("is linked from the README above it", () => {
    const above = manuals.filter((other) => file !== other.file && file.startsWith(other.file.replace("README.md", "")))
    const parent = above.findLast((other) => other.file !== "src/README.md")
    const links = parent === undefined ? [] : linksIn(parent).map((link) => fileOf(parent, link.split("#")[0] ?? ""))
    assert.isTrue(file === "README.md" || links.includes(file), `README.md has no link to ${file}`)
  })
})

it("the symptoms under Troubleshooting are messages of the service", () => {
  const platform = manuals.find(({ file }) => file === "src/platform/README.md")?.text ?? ""
  const [, table = ""] = /^## Troubleshooting\n([\s\S]*?)^## /m.exec(platform) ?? []
  const source = fs
    .globSync("src/**/*.ts", { cwd: root })
    .map((file) => fs.readFileSync(path.join(root, file), "utf8"))
    .join()
  const quoted = Array.from(table.matchAll(/^\| `([^`]* [^`]*)`/gm), ([, symptom = ""]) => symptom.split("…"))
  const said = quoted.flat().filter((part) => part.includes(" ") && !part.includes("EADDRINUSE"))
  assert.isAtLeast(said.length, 5)
  assert.deepStrictEqual(
    said.filter((part) => !source.includes(part.trim())),
    []
  )
})

it("each area has a manual", () => {
  const areas = fs.readdirSync(path.join(root, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory())
  const without = areas.filter(({ name }) => !manuals.some(({ file }) => file === `src/${name}/README.md`))
  assert.deepStrictEqual(
    without.map(({ name }) => name),
    []
  )
})

it.effect("the README at the top shows what the first start prints", () =>
  Effect.gen(function* () {
    const shown = manuals[0]?.blocks.find(({ text }) => text.startsWith("Application Manager serves on"))?.text ?? ""
    const secret = (pattern: RegExp) => Option.some(Redacted.make(pattern.exec(shown)?.[0] ?? ""))
    const printed: Array<unknown> = []
    const output = vi.spyOn(process.stdout, "write").mockImplementation((text) => printed.push(text) > 0)
    yield* Effect.ensuring(
      printBanner({ madeKey: secret(/ams_\S+/), claimLink: secret(/http\S+#\S+/) }),
      Effect.sync(() => output.mockRestore())
    )
    assert.deepStrictEqual(printed, [shown])
  }).pipe(
    Effect.provideService(
      HttpServer.HttpServer,
      HttpServer.make({
        serve: () => Effect.void,
        address: NetAddress.inetAddressFromIpStringUnsafe("127.0.0.1", 11_402)
      })
    ),
    Effect.provideService(
      DatabaseConnection,
      DatabaseConnection.of({ options: {}, embeddedIn: Option.some("/home/ada/application-manager/.data") })
    ),
    Effect.provide(Settings.layerMemory())
  )
)

it("the README at the top has at most 200 lines", () => {
  assert.isAtMost(manuals[0]?.text.trimEnd().split("\n").length ?? Infinity, 200)
})
