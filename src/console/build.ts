import { createHash } from "node:crypto"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { promisify } from "node:util"
import { gzip } from "node:zlib"
import { type Plugin } from "vite"

const root = path.resolve(import.meta.dirname, "../..")
const sources = path.join(import.meta.dirname, "web")
const target = path.join(root, "dist/console")
const marker = path.join(target, "sources")

/** What the console is made of: its own files, the declarations of the API with their models, and the versions of packages. */
const fingerprint = async (): Promise<string> => {
  const hash = createHash("sha256")
  const inSources = await fs.readdir(path.join(root, "src"), { recursive: true })
  const relevant = inSources
    .filter((file) => /^console[/\\]|^kernel[/\\].*\.ts$|(?:^|[/\\-])(?:api|domain)\.ts$/.test(file))
    .map((file) => path.join(root, "src", file))
  const files = [...relevant.toSorted(), path.join(root, "package-lock.json")]
  const contents = await Promise.all(files.map((file) => fs.readFile(file).catch(() => "")))
  for (const [at, content] of contents.entries()) {
    hash
      .update(path.relative(root, files[at] ?? ""))
      .update("\0")
      .update(content)
  }
  return hash.digest("hex")
}

/** The modules that are made of the declarations of the API. */
const declarations = (): Plugin => ({
  name: "declarations",
  resolveId: (id) => (id.startsWith("virtual:") ? `\0${id}` : undefined),
  load: async (id) => {
    if (!id.startsWith("\0virtual:")) return
    const { body, builtIn, capabilities, credentials, installationOnly, members, ofTenants, routes, vendors } =
      await import("./declarations.ts")
    const ofBody = id.split("\0virtual:body/")[1]
    if (ofBody !== undefined) return `export default ${JSON.stringify(body(ofBody))}`
    const made = {
      "\0virtual:routes": routes,
      "\0virtual:members": members,
      "\0virtual:capabilities": capabilities,
      "\0virtual:installation-only": installationOnly,
      "\0virtual:built-in": builtIn,
      "\0virtual:of-tenants": ofTenants,
      "\0virtual:vendors": vendors,
      "\0virtual:credentials": credentials
    }[id]
    return made === undefined ? undefined : `export default ${JSON.stringify(made())}`
  }
})

const compressed = /\.(?:css|html|js|svg|json)$/

const compress = async (file: string): Promise<void> =>
  fs.writeFile(`${file}.gz`, await promisify(gzip)(await fs.readFile(file), { level: 9 }))

/** Builds the console into `dist/console`, each text beside its gzip form; a reader sees the old build or the new one. */
const build = async (): Promise<void> => {
  process.env.NODE_ENV = "production"
  const { build: bundle } = await import("vite")
  const { default: react } = await import("@vitejs/plugin-react")
  const made = path.join(root, "dist", `console-${process.pid}`)
  await bundle({
    root: sources,
    base: "/console/",
    configFile: false,
    logLevel: "warn",
    plugins: [react(), declarations()],
    build: {
      rolldownOptions: { checks: { pluginTimings: false } },
      outDir: made,
      emptyOutDir: true,
      assetsInlineLimit: 0,
      target: "es2023",
      modulePreload: { polyfill: false }
    }
  })
  const texts = (await fs.readdir(made, { recursive: true })).filter((file) => compressed.test(file))
  await Promise.all(texts.map((file) => compress(path.join(made, file))))
  await fs.writeFile(path.join(made, path.basename(marker)), await fingerprint())
  await fs.rm(target, { recursive: true, force: true })
  await fs.rename(made, target)
}

/** Whether `dist/console` is a build of the sources that are here. */
const isCurrent = async (): Promise<boolean> =>
  (await fs.readFile(marker, "utf8").catch(() => "")) === (await fingerprint())

const isInstalled = async (): Promise<boolean> => {
  try {
    import.meta.resolve("vite")
    await fs.access(sources)
    return true
  } catch {
    return false
  }
}

const isAsked = !process.argv.includes("--if-stale")
if (isAsked || ((await isInstalled()) && !(await isCurrent()))) {
  process.stdout.write("Building the console …\n")
  await build()
}
