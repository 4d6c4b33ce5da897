import { assert, it } from "@effect/vitest"
import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"
import { root } from "./manuals.ts"

interface Component {
  readonly "bom-ref": string
  readonly name: string
  readonly version: string
  readonly scope: string
  readonly purl: string
  readonly hashes?: ReadonlyArray<{ readonly content: string }>
  readonly licenses?: ReadonlyArray<unknown>
}

const bill = JSON.parse(execFileSync(process.execPath, ["deploy/sbom.ts"], { cwd: root, encoding: "utf8" }))
const components: ReadonlyArray<Component> = bill.components
const manifest = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))

it("the bill of materials has what is installed, also what packages for development need too", () => {
  const named = (scope: string) => components.filter((one) => one.scope === scope).map(({ name }) => name)
  assert.includeMembers(named("required"), Object.keys(manifest.dependencies))
  assert.includeMembers(named("optional"), Object.keys(manifest.optionalDependencies))
  const all = components.map(({ name }) => name)
  for (const name of ["vitest", "vite", "react", "openai"]) assert.notInclude(all, name)
  for (const { hashes, licenses, name, purl, version } of components) {
    assert.strictEqual(purl, `pkg:npm/${name.replace("@", "%40")}@${version}`)
    assert.match(hashes?.[0]?.content ?? "", /^[0-9a-f]{128}$/, name)
    assert.isDefined(licenses, name)
  }
})

it("each package of the bill is a dependency of another one that is in it", () => {
  const refs = new Set(components.map((one) => one["bom-ref"]))
  const edges: ReadonlyArray<string> = bill.dependencies.flatMap(
    ({ dependsOn }: { readonly dependsOn: ReadonlyArray<string> }) => dependsOn
  )
  assert.deepStrictEqual(
    edges.filter((ref) => !refs.has(ref)),
    []
  )
  const reached = new Set(edges)
  // What packages ask of their surroundings (peers) is installed for them, and not written as a dependency.
  assert.isBelow([...refs].filter((ref) => !reached.has(ref)).length, 10)
})
