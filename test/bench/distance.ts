import * as net from "node:net"

/**
 * Stands between servers and their database, whose answers come a millisecond later than they were given: as far as a
 * database often is that runs on a machine of its own.
 */
const [host = "", port = ""] = process.argv.slice(2)
const target = host.startsWith("/") ? { path: `${host}/.s.PGSQL.${port}` } : { host, port: Number(port) }
const millis = 1

const server = net.createServer({ noDelay: true }, (near) => {
  const far = net.connect(target)
  near.pipe(far)
  far.on("data", (chunk) => setTimeout(() => near.write(chunk), millis))
  near.on("close", () => far.destroy()).on("error", () => far.destroy())
  far.on("close", () => near.destroy()).on("error", () => near.destroy())
})
server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (typeof address === "object") process.stdout.write(`listening on ${address?.port}\n`)
})
