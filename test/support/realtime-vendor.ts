import { WebSocketServer, type WebSocket } from "@effect/platform-node/NodeWS"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import * as http from "node:http"
import { type AddressInfo } from "node:net"

// oxlint-disable-next-line typescript/no-explicit-any -- events of any shape
type Json = any

/** Which mistakes a stand-in makes. */
export interface RealtimeFaults {
  /** Makes responses at the end of turns whatever it was asked. */
  respondsByItself?: boolean
  /** Says that it does not, and does. */
  respondsUnasked?: boolean
  /** Answers a handshake with this status. */
  refusesWith?: number
  /** Cuts the socket after so many events of a response. */
  cutsAfter?: number
  /** Refuses to make responses. */
  refusesResponses?: boolean
  /** Refuses so many responses because it is overloaded. */
  overloadedTimes?: number
  /** Ends another response, of this usage, within each that it makes. */
  endsOther?: unknown
  /** Begins each session with this error. */
  beginsWith?: unknown
  /** Reports this usage of responses. */
  usage?: unknown
  /** Ends a response that is made when its session changes, and gets what confirms the change. */
  endsAtUpdate?: (confirm: () => void) => void
  /** Answers a buffer that is cleared with this error. */
  failsWith?: object
  /** How many pieces of audio it sends in a response, instead of two. */
  deltas?: number
  /** Reports no transcription. */
  transcribesNothing?: boolean
  /** Waits with the end of a response until it is cancelled. */
  holdsEnd?: boolean
}

/** A stand-in for the Realtime API of OpenAI, which keeps what it was sent. */
export interface RealtimeStandIn {
  readonly url: string
  /** What clients have sent, over all sessions. */
  readonly events: ReadonlyArray<Json>
  readonly handshakes: ReadonlyArray<http.IncomingMessage>
  readonly open: () => number
  /** Bytes that its clients have not taken. */
  readonly waitingBytes: () => number
  faults: RealtimeFaults
}

const id = (prefix: string) => `${prefix}_${crypto.randomBytes(8).toString("hex")}`
const secondBytes = 48_000
const isSilent = (audio: Buffer) => audio.every((byte) => byte === 0)

/** What each response uses besides its conversation. */
export const realtimeUsage = { text: 20, audio: 60 }

const clientEvents = new Set([
  "session.update",
  "input_audio_buffer.append",
  "input_audio_buffer.commit",
  "input_audio_buffer.clear",
  "conversation.item.create",
  "conversation.item.retrieve",
  "conversation.item.truncate",
  "conversation.item.delete",
  "response.create",
  "response.cancel"
])

/** One session: turns end at a second of silence, and each second of speech is ten tokens. */
class Session {
  private session: Json
  private buffered = 0
  private speaks = false
  private item = ""
  private text = 0
  private audio = 0
  private cached = 0
  private active: { readonly id: string; readonly asked: Json } | undefined
  private sent = 0
  private output: ReadonlyArray<Json> = []
  private readonly socket: WebSocket
  private readonly standIn: { faults: RealtimeFaults }

  constructor(socket: WebSocket, model: string, standIn: { faults: RealtimeFaults }) {
    this.socket = socket
    this.standIn = standIn
    this.session = {
      type: "realtime",
      object: "realtime.session",
      id: id("sess"),
      model,
      output_modalities: ["audio"],
      instructions: "",
      tools: [],
      max_output_tokens: "inf",
      client_secret: { value: "ek_secret" },
      audio: {
        input: {
          format: { type: "audio/pcm", rate: 24_000 },
          turn_detection: { type: "server_vad", create_response: true, interrupt_response: true }
        },
        output: { format: { type: "audio/pcm", rate: 24_000 }, voice: "marin" }
      }
    }
    if (standIn.faults.beginsWith !== undefined) this.send("error", { error: standIn.faults.beginsWith })
    this.send("session.created", { session: this.session })
  }

  private send(type: string, members: object): void {
    this.socket.send(JSON.stringify({ type, event_id: id("event"), ...members }, undefined, 1))
  }

  private fail(message: string, event: Json, code = "invalid_value"): void {
    this.send("error", {
      error: { type: "invalid_request_error", code, message, param: null, event_id: event.event_id ?? null }
    })
  }

  take(event: Json): void {
    if (!clientEvents.has(event.type)) return this.fail(`Invalid value: '${event.type}'`, event)
    switch (event.type) {
      case "session.update":
        return this.update(event)
      case "input_audio_buffer.append":
        return this.append(Buffer.from(event.audio, "base64"))
      case "input_audio_buffer.commit":
        return this.buffered === 0
          ? this.fail("buffer too small", event, "input_audio_buffer_commit_empty")
          : this.commit(id("item"))
      case "input_audio_buffer.clear":
        this.buffered = 0
        if (this.standIn.faults.failsWith !== undefined) {
          return this.send("error", { error: this.standIn.faults.failsWith })
        }
        return this.send("input_audio_buffer.cleared", {})
      case "conversation.item.create": {
        this.text += JSON.stringify(event.item).length
        const item = { id: id("item"), status: "completed", ...event.item }
        this.send("conversation.item.added", { previous_item_id: null, item })
        return this.send("conversation.item.done", { previous_item_id: null, item })
      }
      case "response.create":
        if (this.active !== undefined) {
          return this.fail(
            "Conversation already has an active response",
            event,
            "conversation_already_has_active_response"
          )
        }
        if (this.standIn.faults.refusesResponses === true) return this.fail("No such voice", event)
        if ((this.standIn.faults.overloadedTimes ?? 0) > 0) {
          this.standIn.faults.overloadedTimes! -= 1
          return this.send("error", {
            error: {
              type: "server_error",
              code: "server_error",
              message: "The server had an error",
              param: null,
              event_id: event.event_id ?? null
            }
          })
        }
        return this.respond(event.response ?? {})
      case "response.cancel":
        if (this.active === undefined) return this.fail("no active response found", event, "response_cancel_not_active")
        return this.end("cancelled", { type: "cancelled", reason: "client_cancelled" })
    }
  }

  private update(event: Json): void {
    const { audio, type, ...members } = event.session
    if (type !== undefined && type !== "realtime") return this.fail("Invalid session type", event)
    if (members.instructions === "refuse this") return this.fail("Invalid instructions", event)
    const input = { ...this.session.audio.input, ...audio?.input }
    if (this.standIn.faults.respondsByItself === true)
      input.turn_detection = { type: "server_vad", create_response: true }
    const output = { ...this.session.audio.output, ...audio?.output }
    this.session = { ...this.session, ...members, audio: { input, output } }
    const confirm = () => this.send("session.updated", { session: this.session })
    const { endsAtUpdate } = this.standIn.faults
    if (endsAtUpdate === undefined) return confirm()
    endsAtUpdate(confirm)
    this.end("completed", null)
  }

  private append(audio: Buffer): void {
    const detection = this.session.audio.input.turn_detection
    this.buffered += audio.length
    if (detection === null) return
    if (!isSilent(audio)) {
      if (this.speaks) return
      this.speaks = true
      this.item = id("item")
      this.send("input_audio_buffer.speech_started", { audio_start_ms: 0, item_id: this.item })
      if (this.active !== undefined && detection.interrupt_response !== false) {
        this.end("cancelled", { type: "cancelled", reason: "turn_detected" })
      }
    } else if (this.speaks) {
      this.speaks = false
      this.send("input_audio_buffer.speech_stopped", { audio_end_ms: 0, item_id: this.item })
      this.commit(this.item)
      if (detection.create_response !== false || this.standIn.faults.respondsUnasked === true) this.respond({})
    }
  }

  private commit(item: string): void {
    const seconds = this.buffered / secondBytes
    this.audio += Math.ceil((this.buffered / secondBytes) * 10)
    this.buffered = 0
    this.send("input_audio_buffer.committed", { previous_item_id: null, item_id: item })
    this.send("conversation.item.added", { item: { id: item, type: "message", role: "user" } })
    const { transcription } = this.session.audio.input
    if (transcription?.model === undefined || this.standIn.faults.transcribesNothing === true) return
    const usage =
      transcription.model === "upstream-whisper"
        ? { type: "duration", seconds }
        : {
            type: "tokens",
            input_tokens: 10 * seconds,
            output_tokens: 4,
            total_tokens: 10 * seconds + 4,
            input_token_details: { audio_tokens: 10 * seconds, text_tokens: 0 }
          }
    this.send("conversation.item.input_audio_transcription.completed", {
      item_id: item,
      content_index: 0,
      transcript: "What time is it?",
      usage
    })
  }

  private respond(asked: Json): void {
    const response = { object: "realtime.response", id: id("resp"), status: "in_progress", output: [], usage: null }
    this.active = { id: response.id, asked }
    this.sent = 0
    const at = { response_id: response.id, item_id: id("item"), output_index: 0, content_index: 0 }
    this.send("response.created", { response: { ...response, metadata: asked.metadata ?? null } })
    this.send("rate_limits.updated", { rate_limits: [{ name: "requests", limit: 1000, remaining: 999 }] })
    const item = { id: at.item_id, object: "realtime.item", type: "message", role: "assistant", content: [] }
    this.part("response.output_item.added", { ...at, item: { ...item, status: "in_progress" } })
    this.part("conversation.item.added", { item: { ...item, status: "in_progress" } })
    const { deltas = 2, endsOther: usage } = this.standIn.faults
    if (usage !== undefined) this.send("response.done", { response: { ...response, id: id("resp"), usage } })
    for (const delta of ["It is ", "noon.", ...Array<string>(deltas).fill("")].slice(0, deltas)) {
      this.part("response.output_audio_transcript.delta", { ...at, delta })
      this.part("response.output_audio.delta", { ...at, delta: Buffer.alloc(4800, 1).toString("base64") })
    }
    if (this.standIn.faults.holdsEnd === true) return
    const content = [{ type: "output_audio", transcript: "It is noon." }]
    this.output = [{ ...item, status: "completed", content }]
    this.part("response.output_item.done", { ...at, item: this.output[0] })
    this.end("completed", null)
  }

  private part(type: string, members: object): void {
    if (this.sent++ === this.standIn.faults.cutsAfter) this.socket.terminate()
    else this.send(type, members)
  }

  private end(status: string, details: Json): void {
    const { active } = this
    if (active === undefined) return
    this.active = undefined
    const most = active.asked.max_output_tokens ?? this.session.max_output_tokens
    const spoken = Math.min(realtimeUsage.audio, most === "inf" ? Infinity : most)
    const instructions = (active.asked.instructions ?? this.session.instructions).length
    const [text, audio] = [this.text + instructions + 10, this.audio]
    const cached = Math.min(this.cached, text)
    this.cached = text
    this.audio += spoken
    const usage = {
      total_tokens: text + audio + realtimeUsage.text + spoken,
      input_tokens: text + audio,
      output_tokens: realtimeUsage.text + spoken,
      input_token_details: {
        text_tokens: text,
        audio_tokens: audio,
        image_tokens: 0,
        cached_tokens: cached,
        cached_tokens_details: { text_tokens: cached, audio_tokens: 0, image_tokens: 0 }
      },
      output_token_details: { text_tokens: realtimeUsage.text, audio_tokens: spoken }
    }
    this.send("response.done", {
      response: {
        object: "realtime.response",
        id: active.id,
        status,
        status_details: details,
        output: this.output,
        usage: "usage" in this.standIn.faults ? this.standIn.faults.usage : usage
      }
    })
    this.output = []
  }
}

/** Starts a stand-in that takes this key; it ends with the scope. */
export const startRealtimeVendor = (key = "sk-realtime") =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const events: Array<Json> = []
      const handshakes: Array<http.IncomingMessage> = []
      const sockets = new WebSocketServer({ noServer: true })
      const standIn = { faults: {} as RealtimeFaults }
      const server = http.createServer((_, response) => response.writeHead(404).end("{}"))
      server.on("upgrade", (request, connection, head) => {
        handshakes.push(request)
        const { pathname, searchParams } = new URL(request.url ?? "", "http://localhost")
        const refuse = (status: number, error: object) => {
          const body = JSON.stringify({ error })
          connection.end(
            `HTTP/1.1 ${status} No\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`
          )
        }
        const { refusesWith } = standIn.faults
        if (refusesWith !== undefined) return refuse(refusesWith, { message: "No sessions", type: "server_error" })
        if (request.headers.authorization !== `Bearer ${key}`) {
          return refuse(401, {
            message: `Incorrect API key: ${request.headers.authorization}`,
            code: "invalid_api_key"
          })
        }
        const model = searchParams.get("model")
        if (pathname !== "/v1/realtime" || model === null) return refuse(404, { message: "Not found" })
        sockets.handleUpgrade(request, connection, head, (socket) => {
          const session = new Session(socket, model, standIn)
          socket.on("message", (data) => {
            const event = JSON.parse(String(data))
            events.push(event)
            session.take(event)
          })
        })
      })
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      const { port } = server.address() as AddressInfo
      return Object.assign(standIn, {
        url: `http://127.0.0.1:${port}`,
        events,
        handshakes,
        open: () => sockets.clients.size,
        waitingBytes: () => [...sockets.clients].reduce((sum, { bufferedAmount }) => sum + bufferedAmount, 0),
        close: () => {
          for (const socket of sockets.clients) socket.terminate()
          server.close()
          server.closeAllConnections()
        }
      })
    }),
    (standIn) => Effect.sync(() => standIn.close())
  )
