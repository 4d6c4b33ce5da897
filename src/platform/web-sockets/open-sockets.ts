import { Clock, Context, Duration, Effect, Exit, type Fiber, FiberSet, Layer, Schedule, Scope } from "effect"
import { type HttpServerError, type HttpServerRequest } from "effect/http"
import { Socket } from "effect/socket"
import { IncomingMessage } from "node:http"
import { type Socket as NetSocket } from "node:net"
import { type RateLimited } from "../../kernel/authority/principal.ts"
import { Slots, type Slotted } from "../../kernel/slots.ts"
import { Shutdown } from "../http/in-flight.ts"
import { makePlaces } from "../http/places.ts"
import { Settings } from "../settings/settings.ts"

/** A WebSocket that a client has opened. */
export interface OpenSocket {
  /** The next messages of the client; fails once the socket is closed. */
  readonly pull: Socket.Reader["pull"]
  /** Sends a text, and waits until the client has taken most of what was sent; a client that takes nothing is cut off. */
  send(text: string): Effect.Effect<void, Socket.SocketError>
  /** Keeps the socket open while a fiber works for its client: it is not idle, and at a shutdown it ends after the work. */
  keepFor(work: Fiber.Fiber<unknown, unknown>): void
  /** Ends the socket and its session, with a code of RFC 6455 §7.4. */
  end(code: number, reason: string): Effect.Effect<void>
}

/** What serves a WebSocket, until it ends. */
export type SocketSession = (socket: OpenSocket) => Effect.Effect<void, Socket.SocketError>

/** Codes of RFC 6455 §7.4.1 with which the service closes sockets. */
export const closeCodes = { idle: 1000, goingAway: 1001, noText: 1003, refused: 1008 } as const

/** Slower than this, in bytes a second, a client does not take what it asked for. */
const slowestBytesPerSecond = 65_536

const sweepEvery = "1 second"

const withoutServices: (context: Context.Context<never>) => Context.Context<never> = Context.empty

/** More than the frames have that are no messages: what goes on to arrive after it is a message, and has to end. */
const begunBytes = 65_536

class Entry implements Slotted {
  slot: number | undefined = undefined
  works = 0
  private activeAt = 0
  private bytesRead = 0
  private readonly connection: NetSocket
  readonly end: OpenSocket["end"]

  constructor(connection: NetSocket, end: OpenSocket["end"]) {
    this.connection = connection
    this.end = end
  }

  touch(now: number): void {
    this.activeAt = now
    this.bytesRead = this.connection.bytesRead
  }

  isIdleSince(millis: number): boolean {
    return this.works === 0 && this.activeAt <= millis
  }

  /** Whether a message has begun that has not ended since then. */
  isWaitingSince(millis: number): boolean {
    return this.isIdleSince(millis) && this.connection.bytesRead - this.bytesRead > begunBytes
  }
}

/**
 * The WebSockets of this replica: how many there are, that idle ones are closed, and that all end with the service. An idle
 * one has one waiting fiber, and no timer.
 */
export class OpenSockets extends Context.Service<
  OpenSockets,
  {
    /**
     * Accepts the WebSocket that the current request asks for, for the current principal, and serves it by the session that is
     * `begun` once there is a place for it, which goes on after the request; 429 names the limit that is reached.
     */
    accept<E, R>(
      request: HttpServerRequest.HttpServerRequest,
      begun: Effect.Effect<SocketSession, E, R>
    ): Effect.Effect<void, E | RateLimited | HttpServerError.HttpServerError | Socket.SocketError, R>
  }
>()("app/platform/OpenSockets") {
  static readonly layer = Layer.effect(
    OpenSockets,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const shutdown = yield* Shutdown
      const { api } = yield* Settings
      const { requestTimeoutSeconds } = api
      const { idleSeconds, maxPerPrincipal, maxPerReplica } = api.webSockets
      const claim = yield* makePlaces("WebSockets", {
        principal: maxPerPrincipal,
        tenant: maxPerReplica,
        replica: maxPerReplica
      })
      const sessions = yield* FiberSet.make<void>()
      const run = yield* FiberSet.runtime(sessions)<never>()
      const entries = new Slots<Entry>()
      let hasDrained = false

      yield* shutdown.drained.pipe(
        Effect.andThen(
          Effect.suspend(() => {
            hasDrained = true
            const idle = [...entries].filter(({ works }) => works === 0)
            return Effect.forEach(idle, goAway, { discard: true })
          })
        ),
        Effect.forkScoped
      )

      /** Why a socket has to end by now; undefined where it may go on. */
      const overdue = (entry: Entry, now: number): { readonly code: number; readonly reason: string } | undefined => {
        if (entry.isIdleSince(now - idleSeconds * 1000)) {
          return { code: closeCodes.idle, reason: `Nothing was asked for in ${idleSeconds} s.` }
        }
        return entry.isWaitingSince(now - requestTimeoutSeconds * 1000)
          ? { code: closeCodes.refused, reason: `A message took longer than ${requestTimeoutSeconds} s.` }
          : undefined
      }

      yield* Effect.suspend(() => {
        const now = clock.currentTimeMillisUnsafe()
        const ends: Array<Effect.Effect<void>> = []
        for (const entry of entries) {
          const why = overdue(entry, now)
          if (why !== undefined) ends.push(entry.end(why.code, why.reason))
        }
        return Effect.all(ends, { discard: true })
      }).pipe(Effect.repeat(Schedule.spaced(sweepEvery)), Effect.forkScoped)

      const accept = Effect.fnUntraced(function* <E, R>(
        request: HttpServerRequest.HttpServerRequest,
        begun: Effect.Effect<SocketSession, E, R>
      ) {
        const { source } = request
        if (!(source instanceof IncomingMessage)) return yield* Effect.die(new Error("Only a listener has WebSockets"))
        const place = yield* claim
        const session = yield* Effect.onError(begun, () => place.release)
        const scope = Scope.makeUnsafe()
        // A socket keeps the context in which it is asked for: that of the request would be most of what an idle one holds.
        const upgrade = Effect.updateContext(request.upgrade, withoutServices)
        const { reader, writer } = yield* Effect.flatMap(upgrade, (socket) =>
          Effect.all({ reader: socket.reader, writer: socket.writer })
        ).pipe(
          Scope.provide(scope),
          Effect.onError(() => Effect.andThen(Scope.close(scope, Exit.void), place.release))
        )
        const taken = taking(source.socket, requestTimeoutSeconds)
        let fiber: Fiber.Fiber<void> | undefined
        const end: OpenSocket["end"] = (code, reason) =>
          Effect.andThen(
            Effect.ignore(writer.write(new Socket.CloseEvent(code, reason))),
            Effect.sync(() => fiber?.interruptUnsafe())
          )
        const entry = new Entry(source.socket, end)
        const touch = () => entry.touch(clock.currentTimeMillisUnsafe())
        touch()
        const socket: OpenSocket = {
          pull: Effect.tap(reader.pull, () => Effect.sync(touch)),
          send: (text) => Effect.andThen(writer.write(text), taken),
          keepFor: (work) => {
            entry.works += 1
            work.addObserver(() => {
              entry.works -= 1
              touch()
              if (hasDrained && entry.works === 0) run(goAway(entry))
            })
          },
          end
        }
        entries.add(entry)
        fiber = run(
          Effect.ignore(place.use(session(socket))).pipe(
            Effect.onExit((exit) => {
              entries.delete(entry)
              return Scope.close(scope, exit)
            })
          )
        )
      })

      return OpenSockets.of({ accept })
    })
  )
}

const goAway = ({ end }: Entry) => end(closeCodes.goingAway, "The service shuts down; connect again.")

/** Waits until a client has taken most of what was sent, or cuts it off. */
const taking = (socket: NetSocket, patienceSeconds: number): Effect.Effect<void> => {
  const waited = Effect.suspend(() =>
    Effect.timeoutOrElse(drained(socket), {
      duration: Duration.seconds(patienceSeconds + socket.writableLength / slowestBytesPerSecond),
      orElse: () => Effect.sync(() => void socket.destroy())
    })
  )
  return Effect.suspend(() => (socket.writableNeedDrain ? waited : Effect.void))
}

const drained = (socket: NetSocket): Effect.Effect<void> =>
  Effect.callback((resume) => {
    const end = () => {
      stop()
      resume(Effect.void)
    }
    const stop = () => void socket.off("drain", end).off("close", end)
    if (socket.destroyed || !socket.writableNeedDrain) return resume(Effect.void)
    socket.on("drain", end).on("close", end)
    return Effect.sync(stop)
  })
