import { Effect } from "effect"
import * as net from "node:net"
import * as path from "node:path"

interface Target {
  readonly host: string
  readonly port: number
}

const connect = ({ host, port }: Target) =>
  host.startsWith("/") ? net.connect(path.join(host, `.s.PGSQL.${port}`)) : net.connect(port, host)

/** A place that forwards connections to a server of the test, and from one moment on to another one. */
export const makeForwarder = Effect.fnUntraced(function* (first: Target) {
  let target = first
  let delayMillis = 0
  let isSilent = false
  const sockets = new Set<net.Socket>()
  const server = net.createServer((inner) => {
    const outer = connect(target)
    for (const [one, other] of [
      [inner, outer],
      [outer, inner]
    ] as const) {
      sockets.add(one)
      if (isSilent) one.pause()
      one.on("data", (chunk) => {
        if (delayMillis === 0) other.write(chunk)
        else setTimeout(() => other.write(chunk), delayMillis)
      })
      one.on("error", () => void other.destroy())
      one.on("close", () => {
        sockets.delete(one)
        other.destroy()
      })
    }
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () =>
      Effect.sync(() => {
        server.close()
        for (const socket of sockets) socket.destroy()
      })
  )
  const { port } = server.address() as net.AddressInfo
  return {
    host: "127.0.0.1",
    port,
    /** Sends connections elsewhere from now on; those that are open stay. */
    leadTo: (other: Target) => Effect.sync(() => void (target = other)),
    /** Delays what is forwarded from now on. */
    delay: (millis: number) => Effect.sync(() => void (delayMillis = millis)),
    /** Forwards nothing more, as when a cable is pulled: connections stay open, and new ones are made that nothing comes through. */
    silence: (silent: boolean) =>
      Effect.sync(() => {
        isSilent = silent
        for (const socket of sockets) {
          if (silent) socket.pause()
          else socket.resume()
        }
      }),
    /** Ends all connections. */
    cut: Effect.sync(() => {
      for (const socket of sockets) socket.destroy()
    })
  }
})
