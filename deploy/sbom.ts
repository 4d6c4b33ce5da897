import * as fs from "node:fs"
import * as path from "node:path"

/**
 * `npm run sbom`: the packages that an installation has, as CycloneDX 1.6, from the lock file alone. `npm sbom --omit=dev` leaves out
 * those that packages for development need too, such as `effect`.
 */
const root = path.resolve(import.meta.dirname, "..")

interface Locked {
  readonly version: string
  readonly name?: string
  readonly license?: string
  readonly integrity?: string
  readonly resolved?: string
  readonly dev?: boolean
  readonly optional?: boolean
  readonly devOptional?: boolean
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
}

const { packages }: { readonly packages: Readonly<Record<string, Locked>> } = JSON.parse(
  fs.readFileSync(path.join(root, "package-lock.json"), "utf8")
)
const manifest = JSON.parse(fs.readFileSync(path.join(root, "package.json"), "utf8"))

const nameOf = (folder: string): string => packages[folder]?.name ?? folder.split("node_modules/").at(-1) ?? folder

const purlOf = (folder: string): string => {
  const name = folder === "" ? manifest.name : nameOf(folder)
  return `pkg:npm/${name.replace(/^@/, "%40")}@${packages[folder]?.version}`
}

const isInstalled = (folder: string): boolean => folder !== "" && packages[folder]?.dev !== true

/** Where Node finds a package for one in a folder. */
const resolve = (from: string, name: string): string | undefined => {
  for (let at = from; ;) {
    const folder = at === "" ? `node_modules/${name}` : `${at}/node_modules/${name}`
    if (folder in packages) return folder
    if (at === "") return undefined
    at = at.includes("/node_modules/") ? at.slice(0, at.lastIndexOf("/node_modules/")) : ""
  }
}

const component = (folder: string) => {
  const { dev, devOptional, integrity = "", license, optional, resolved, version } = packages[folder]!
  const [algorithm = "", digest = ""] = integrity.split("-")
  const isOptional = [dev, devOptional, optional].includes(true)
  return {
    type: "library",
    "bom-ref": folder,
    name: nameOf(folder),
    version,
    scope: isOptional ? "optional" : "required",
    ...(algorithm === "sha512"
      ? { hashes: [{ alg: "SHA-512", content: Buffer.from(digest, "base64").toString("hex") }] }
      : {}),
    ...(license === undefined
      ? {}
      : { licenses: [/\s/.test(license) ? { expression: license } : { license: { id: license } }] }),
    purl: purlOf(folder),
    ...(resolved === undefined ? {} : { externalReferences: [{ type: "distribution", url: resolved }] })
  }
}

const installed = Object.keys(packages).filter(isInstalled)

const dependenciesOf = (folder: string) => {
  const { dependencies = {}, optionalDependencies = {} } = packages[folder]!
  const found = Object.keys({ ...dependencies, ...optionalDependencies }).map((name) => resolve(folder, name))
  return {
    ref: folder === "" ? manifest.name : folder,
    dependsOn: [...new Set(found)].filter((one) => one !== undefined)
  }
}

const bill = {
  bomFormat: "CycloneDX",
  specVersion: "1.6",
  version: 1,
  metadata: {
    component: {
      type: "application",
      "bom-ref": manifest.name,
      name: manifest.name,
      version: manifest.version,
      purl: purlOf("")
    }
  },
  components: installed.map(component),
  dependencies: ["", ...installed].map(dependenciesOf)
}

process.stdout.write(`${JSON.stringify(bill, undefined, 2)}\n`)
