import { Effect } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as net from "node:net"

/** A port of this machine that nobody listens on. */
export const freePort = Effect.callback<number>((resume) => {
  const server = net.createServer().listen(0, "127.0.0.1", () => {
    const { port } = server.address() as net.AddressInfo
    server.close(() => resume(Effect.succeed(port)))
  })
})

export const accepts = (port: number) =>
  Effect.callback<boolean>((resume) => {
    const socket = net.connect(port, "127.0.0.1")
    socket.once("connect", () => {
      socket.destroy()
      resume(Effect.succeed(true))
    })
    socket.once("error", () => resume(Effect.succeed(false)))
  })

/** Runs a server program until the scope closes. */
export const serverProcess = (
  command: string,
  words: ReadonlyArray<string>,
  options: { readonly uid?: number; readonly gid?: number } = {}
) =>
  Effect.acquireRelease(
    Effect.sync(() => spawn(command, words, { ...options, stdio: "ignore", cwd: "/" })),
    endOf
  )

export const endOf = (child: ChildProcess) =>
  Effect.callback<void>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    child.once("exit", () => resume(Effect.void))
    child.kill("SIGKILL")
  })
