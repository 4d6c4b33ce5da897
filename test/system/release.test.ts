import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import * as fs from "node:fs"
import * as os from "node:os"
import * as path from "node:path"
import { project } from "../support/embedded-postgres.ts"

const git = (folder: string, ...words: ReadonlyArray<string>): string =>
  execFileSync("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...words], {
    cwd: folder,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"]
  }).trim()

/** A clone with the files as they are here, on main, whose checks are those of the OpenAPI document alone. */
const makeClone = Effect.acquireRelease(
  Effect.sync(() => {
    const clone = fs.mkdtempSync(path.join(os.tmpdir(), "release-"))
    const files = git(project, "ls-files", "--cached", "--others", "--exclude-standard").split("\n")
    for (const file of files) {
      const from = path.join(project, file)
      if (fs.existsSync(from)) fs.cpSync(from, path.join(clone, file), { verbatimSymlinks: true })
    }
    const manifest = JSON.parse(fs.readFileSync(path.join(clone, "package.json"), "utf8"))
    manifest.scripts.check = manifest.scripts["check:openapi"]
    fs.writeFileSync(path.join(clone, "package.json"), `${JSON.stringify(manifest, undefined, 2)}\n`)
    fs.symlinkSync(path.join(project, "node_modules"), path.join(clone, "node_modules"))
    git(clone, "init", "--quiet", "--initial-branch=main")
    git(clone, "add", "--all")
    git(clone, "commit", "--quiet", "--message", "all")
    return clone
  }),
  (clone) => Effect.sync(() => fs.rmSync(clone, { recursive: true }))
)

const release = (clone: string, version: string) => {
  const { status, stderr, stdout } = spawnSync(process.execPath, ["deploy/release.ts", version], {
    cwd: clone,
    encoding: "utf8"
  })
  return { status, output: stdout + stderr }
}

const commit = (clone: string, file: string, text: string) => {
  fs.writeFileSync(path.join(clone, file), text)
  git(clone, "commit", "--quiet", "--all", "--message", "change")
}

it.live(
  "a release writes its version everywhere, checks, and leaves the rest to a person",
  () =>
    Effect.gen(function* () {
      const clone = yield* makeClone
      const at = (file: string) => fs.readFileSync(path.join(clone, file), "utf8")
      const changelog = at("CHANGELOG.md")
      const isRefused = (version: string, reason: string) => {
        const { output, status } = release(clone, version)
        assert.deepStrictEqual([status, output.includes(reason)], [1, true], output)
      }
      isRefused("v9", `"v9" is not a version`)
      isRefused("9.8.7", `CHANGELOG.md has no section "## [9.8.7] - YYYY-MM-DD"`)
      commit(
        clone,
        "CHANGELOG.md",
        changelog.replace("## [Unreleased]\n", "## [Unreleased]\n\n## [9.8.7] - 2030-01-31\n")
      )
      git(clone, "switch", "--quiet", "--create", "other")
      isRefused("9.8.7", `The branch is "other"`)
      git(clone, "switch", "--quiet", "main")
      fs.writeFileSync(path.join(clone, "left-over.txt"), "")
      isRefused("9.8.7", "left-over.txt")
      fs.rmSync(path.join(clone, "left-over.txt"))
      git(clone, "tag", "v9.8.7")
      isRefused("9.8.7", "The tag v9.8.7 exists")
      git(clone, "tag", "--delete", "v9.8.7")
      const head = git(clone, "rev-parse", "HEAD")

      const { output, status } = release(clone, "9.8.7")
      assert.strictEqual(status, 0, output)
      const lock = JSON.parse(at("package-lock.json"))
      assert.deepStrictEqual(
        [JSON.parse(at("package.json")).version, lock.version, lock.packages[""].version],
        ["9.8.7", "9.8.7", "9.8.7"]
      )
      assert.strictEqual(JSON.parse(at("test/contract/openapi.json")).info.version, "9.8.7")
      assert.match(at("deploy/Dockerfile"), /^ARG VERSION=9\.8\.7$/m)
      assert.match(at("deploy/helm/application-manager/Chart.yaml"), /^version: 9\.8\.7\nappVersion: "9\.8\.7"$/m)
      assert.sameMembers(git(clone, "diff", "--name-only").split("\n"), [
        "deploy/Dockerfile",
        "deploy/README.md",
        "deploy/helm/application-manager/Chart.yaml",
        "migrations/released.json",
        "package-lock.json",
        "package.json",
        "test/contract/openapi.json"
      ])
      for (const line of ["git commit", "git tag --annotate v9.8.7", "git push", "docker build", "run --silent sbom"]) {
        assert.include(output, line)
      }
      assert.deepStrictEqual([git(clone, "rev-parse", "HEAD"), git(clone, "tag")], [head, ""])

      const bill = JSON.parse(execFileSync("npm", ["run", "--silent", "sbom"], { cwd: clone, encoding: "utf8" }))
      assert.deepStrictEqual([bill.bomFormat, bill.metadata.component.version], ["CycloneDX", "9.8.7"])
    }).pipe(Effect.scoped),
  180_000
)
