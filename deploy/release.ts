import { execFileSync } from "node:child_process"
import * as fs from "node:fs"
import * as path from "node:path"

/** `npm run release -- VERSION`: writes the version wherever it stands, runs the checks, and prints what is left to do by hand. */
const root = path.resolve(import.meta.dirname, "..")

class Refusal extends Error {}

const git = (...words: ReadonlyArray<string>): string =>
  execFileSync("git", words, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] }).trim()

const npm = (...words: ReadonlyArray<string>): void =>
  void execFileSync("npm", ["run", ...words], { cwd: root, stdio: ["ignore", "inherit", "inherit"] })

const requireReleasable = (version: string): void => {
  if (!/^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?$/.test(version)) {
    throw new Refusal(`"${version}" is not a version such as 1.0.0: npm run release -- 1.0.0`)
  }
  const branch = git("branch", "--show-current")
  if (branch !== "main") throw new Refusal(`The branch is "${branch}"; releases are made on main: git switch main`)
  const changes = git("status", "--porcelain")
  if (changes !== "") throw new Refusal(`The working tree has changes; commit or remove them:\n${changes}`)
  if (git("tag", "--list", `v${version}`) !== "")
    throw new Refusal(`The tag v${version} exists; choose the next version`)
  const heading = new RegExp(`^## \\[${version.replaceAll(".", "\\.")}\\] - \\d{4}-\\d{2}-\\d{2}$`, "m")
  if (!heading.test(fs.readFileSync(path.join(root, "CHANGELOG.md"), "utf8"))) {
    throw new Refusal(
      `CHANGELOG.md has no section "## [${version}] - YYYY-MM-DD"; name the changes under Unreleased so`
    )
  }
}

/** Where the version stands: a pattern with what comes before and after it. */
const places: Readonly<Record<string, ReadonlyArray<RegExp>>> = {
  "package.json": [/(^  "version": ")[^"]+(")/m],
  "package-lock.json": [
    /(^  "version": ")[^"]+(")/m,
    /(^    "": \{\n      "name": "[^"]+",\n      "version": ")[^"]+(")/m
  ],
  "deploy/Dockerfile": [/(^ARG VERSION=)\S+()$/m, /(--tag application-manager:)\S+( )/],
  "deploy/README.md": [/(--tag application-manager:)\S+( )/, /(Security__EncryptionKey application-manager:)\S+( )/],
  "deploy/helm/application-manager/Chart.yaml": [/(^version: )\S+()$/m, /(^appVersion: ")[^"]+(")$/m]
}

const write = (version: string): void => {
  for (const [file, patterns] of Object.entries(places)) {
    const text = fs.readFileSync(path.join(root, file), "utf8")
    const written = patterns.reduce((changed, pattern) => {
      if (!pattern.test(changed)) throw new Refusal(`${file} has no version where ${pattern} looks for it`)
      return changed.replace(pattern, `$1${version}$2`)
    }, text)
    if (written !== text) fs.writeFileSync(path.join(root, file), written)
  }
}

const byHand = (version: string, isChanged: boolean): string => {
  const name = `application-manager-${version}`
  return [
    `${version} is written and checked. Nothing was committed, pushed or published. What is left, in this order:`,
    ...(isChanged ? ["", `  git commit --all --message "release: ${version}"`] : []),
    "",
    `  git tag --annotate v${version} --message "Application Manager ${version}"`,
    `  git push origin main v${version}`,
    `  docker build --file deploy/Dockerfile --build-arg REVISION=$(git rev-parse v${version}) --build-arg SOURCE=$(git remote get-url origin) --tag application-manager:${version} .`,
    `  helm package deploy/helm/application-manager`,
    `  npm run --silent sbom > ${name}.cdx.json`,
    `  git archive --format=tar.gz --prefix=${name}/ --output=${name}.tar.gz v${version}`,
    `  sha256sum ${name}.* > ${name}.sha256`,
    ""
  ].join("\n")
}

try {
  const [version = ""] = process.argv.slice(2)
  requireReleasable(version)
  write(version)
  npm("openapi")
  npm("revision", "--", "--released")
  npm("check")
  process.stdout.write(byHand(version, git("status", "--porcelain") !== ""))
} catch (error) {
  const isRefused = error instanceof Refusal
  process.stderr.write(
    isRefused
      ? `${error.message}\n`
      : `${String(error)}\nThe release is not ready; "git restore ." undoes what was written.\n`
  )
  process.exitCode = 1
}
