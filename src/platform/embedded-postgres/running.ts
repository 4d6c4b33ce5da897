import { Effect, Redacted } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { type Endpoint } from "./endpoint.ts"
import { attempt } from "./error.ts"
import { type Home, ifPresent } from "./home.ts"

/** Where the server of a home that another process runs listens, and the superuser's password; undefined when none does. */
export const findRunning = Effect.fnUntraced(function* (home: Home) {
  const file = path.join(home.cluster, "postmaster.pid")
  const lines = yield* attempt("unreachable-directory", `read ${file}`, () => ifPresent(fs.readFile(file, "utf8")))
  const endpoint = endpointIn(lines ?? "")
  if (endpoint === undefined) return undefined
  const passwordFile = path.join(home.directory, "password")
  const password = yield* attempt("unreachable-directory", `read ${passwordFile}`, () =>
    fs.readFile(passwordFile, "utf8")
  )
  return { ...endpoint, password: Redacted.make(password.trim()) }
})

/** PostgreSQL writes its port, its socket's directory and its address into the fourth line and the two after it. */
const endpointIn = (lines: string): Endpoint | undefined => {
  const [, , , port = "", socketDirectory = "", address = ""] = lines.split("\n").map((line) => line.trim())
  const host = socketDirectory === "" ? address : socketDirectory
  return host === "" || !/^\d+$/.test(port) ? undefined : { host, port: Number(port) }
}
