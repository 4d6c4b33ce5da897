import { useEffect, useRef, useState } from "react"
import { Link, useSearchParams } from "wouter"
import { addressOf, Failure, send } from "../../api/client.ts"
import { queries, useCall } from "../../api/hooks.ts"
import { type Payload } from "../../api/operations.ts"
import { Act, CopyCurl, type Of } from "../../kit/actions.tsx"
import { count, milliseconds, usd } from "../../kit/format.tsx"
import { SelectField, TextField } from "../../kit/forms/form.tsx"
import { Page } from "../../kit/page.tsx"
import { useCan } from "../../shell/session.tsx"

type Request = Payload<"llmCalls.complete">

/** What a call came to. */
interface Outcome {
  readonly latencyMs: number
  readonly firstMs: number | undefined
  readonly costUsd: number | undefined
  readonly tokens: readonly [input: number, output: number] | undefined
  readonly servedBy: string | undefined
  readonly requestId: string | undefined
}

interface Turn {
  readonly question: string
  readonly answer: string
  readonly outcome?: Outcome
  readonly failure?: string
}

interface ServerEvent {
  readonly event: string
  readonly data: Readonly<Record<string, unknown>>
}

/** The Server-Sent Events of an answer. */
async function* eventsOf(answer: Response): AsyncGenerator<ServerEvent> {
  let buffer = ""
  const chunks = answer.body!.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    // oxlint-disable-next-line no-await-in-loop -- one chunk comes after the other
    const { done, value } = await chunks.read()
    if (done) return
    buffer += value
    const blocks = buffer.split("\n\n")
    buffer = blocks.pop() ?? ""
    for (const block of blocks) {
      const lines = block.split("\n")
      const data = lines.find((line) => line.startsWith("data: "))?.slice(6)
      const event = lines.find((line) => line.startsWith("event: "))?.slice(7)
      if (data !== undefined && event !== undefined) yield { event, data: JSON.parse(data) }
    }
  }
}

/** Why a call was refused, in words that say what to do. */
const reasonOf = (cause: unknown): string => {
  if (!(cause instanceof Failure)) return cause instanceof Error ? cause.message : "The call failed."
  return cause.traceId === undefined ? cause.message : `${cause.message} Trace ${cause.traceId}.`
}

const numberIn = (data: ServerEvent["data"], name: string): number => Number(data[name] ?? 0)

/** Sends a request and hands on the text so far, until it has ended. */
const stream = async (
  body: Request,
  key: string | undefined,
  onText: (text: string) => void,
  signal: AbortSignal
): Promise<Pick<Turn, "outcome" | "failure">> => {
  const begun = performance.now()
  const [method, path] = addressOf("llmCalls.complete", {})
  const answer = await send(path, {
    method,
    signal,
    headers: { "content-type": "application/json", ...(key === undefined ? {} : { "x-api-key": key }) },
    body: JSON.stringify(body)
  })
  let text = ""
  let firstMs: number | undefined
  let usage: ServerEvent["data"] | undefined
  let failure: string | undefined
  for await (const { data, event } of eventsOf(answer)) {
    if (event === "delta") {
      firstMs ??= performance.now() - begun
      text += String(data.text ?? "")
      onText(text)
    } else if (event === "usage") usage = data
    else if (event === "error") failure = String(data.message ?? "The provider broke off.")
  }
  return {
    ...(failure === undefined ? {} : { failure }),
    outcome: {
      latencyMs: performance.now() - begun,
      firstMs,
      costUsd: usage && numberIn(usage, "costUsd"),
      tokens: usage && [numberIn(usage, "inputTokens"), numberIn(usage, "outputTokens")],
      servedBy: usage && `${String(usage.provider)}/${String(usage.model)}`,
      requestId: answer.headers.get("x-request-id") ?? undefined
    }
  }
}

const OutcomeLine = ({ of }: Of<Outcome>) => {
  const { costUsd, firstMs, latencyMs, requestId, servedBy, tokens } = of
  const figures = [
    costUsd === undefined ? null : usd(costUsd),
    milliseconds(latencyMs),
    firstMs === undefined ? null : `first token after ${milliseconds(firstMs)}`,
    tokens === undefined ? null : `${count(tokens[0])} in, ${count(tokens[1])} out`,
    servedBy
  ]
  return (
    <div className="legend outcome">
      {figures.map((figure) => (figure == null ? null : <span key={figure}>{figure}</span>))}
      {requestId === undefined ? null : (
        <span>
          request <code>{requestId}</code>
        </span>
      )}
    </div>
  )
}

/** A conversation with a model through the gateway, metered and limited like every other call. */
export default function Try() {
  const may = useCan()
  const mayCall = may("llm:complete")
  const [search, setSearch] = useSearchParams()
  const models = useCall("llm.models", {})
  const chats = models.data?.filter(({ kind }) => kind === "chat") ?? []
  const model = search.get("model") ?? chats[0]?.id ?? ""
  const [key, setKey] = useState("")
  const [turns, setTurns] = useState<ReadonlyArray<Turn>>([])
  const [running, setRunning] = useState<AbortController | undefined>()
  const end = useRef<HTMLDivElement>(null)
  useEffect(() => () => running?.abort(), [running])

  const bodyOf = (question: string): Request => ({
    model,
    stream: true,
    messages: [
      ...turns
        .filter(({ failure }) => failure === undefined)
        .flatMap(({ answer, question }) => [
          { role: "user" as const, content: question },
          { role: "assistant" as const, content: answer }
        ]),
      { role: "user", content: question }
    ]
  })

  const ask = async (question: string) => {
    const controller = new AbortController()
    const show = (turn: Partial<Turn>) => setTurns((shown) => [...shown.slice(0, -1), { ...shown.at(-1)!, ...turn }])
    const body = bodyOf(question)
    setTurns((shown) => [...shown, { question, answer: "" }])
    setRunning(controller)
    try {
      show(await stream(body, key === "" ? undefined : key, (answer) => show({ answer }), controller.signal))
    } catch (cause) {
      show({ failure: controller.signal.aborted ? "Stopped. What was received so far is charged." : reasonOf(cause) })
    }
    setRunning(undefined)
    end.current?.scrollIntoView({ block: "nearest" })
    void queries.invalidateQueries({ predicate: ({ queryKey }) => String(queryKey[0]).startsWith("budget") })
  }

  return (
    <Page
      title="Try a model"
      lead="A chat through the gateway. It is metered, limited and charged like every other call."
      actions={
        <>
          <CopyCurl name="llmCalls.complete" input={{ body: bodyOf("Hello") }} />
          <button type="button" className="btn" disabled={turns.length === 0} onClick={() => setTurns([])}>
            Start over
          </button>
        </>
      }
    >
      <section className="card">
        <div className="in stack">
          <div className="row2">
            <SelectField
              label="Model"
              value={model}
              onChange={(event) => setSearch({ model: event.target.value }, { replace: true })}
              options={[
                ...(chats.some(({ id }) => id === model) ? [] : [model]),
                ...chats.map(({ id, status }) => [id, status === "available" ? id : `${id} (${status})`] as const)
              ]}
            />
            <TextField
              label="API key"
              type="password"
              autoComplete="off"
              value={key}
              onChange={(event) => setKey(event.target.value)}
              hint={
                mayCall
                  ? "Empty: the call is made as you. With a key it is made as that key, which stays in memory only"
                  : "You do not have llm:complete: enter a key, which stays in memory only"
              }
            />
          </div>
          <div className="talk" aria-live="polite">
            {turns.map(({ answer, failure, outcome, question }, at) => (
              <div key={at} className="talk">
                <article className="own" aria-label="You">
                  {question}
                </article>
                <article aria-label={model}>
                  {answer === "" && failure === undefined ? <span className="soft">…</span> : answer}
                  {failure === undefined ? null : (
                    <p className="fault" role="alert">
                      {failure} <Link href="/caps">Caps</Link>
                    </p>
                  )}
                  {outcome === undefined ? null : <OutcomeLine of={outcome} />}
                </article>
              </div>
            ))}
          </div>
          <form
            onSubmit={(event) => {
              event.preventDefault()
              const form = event.currentTarget
              const question = String(new FormData(form).get("question") ?? "").trim()
              if (question === "" || running !== undefined || (!mayCall && key === "")) return
              form.reset()
              void ask(question)
            }}
          >
            <label htmlFor="question" className="label">
              Message
            </label>
            <textarea
              id="question"
              name="question"
              rows={3}
              required
              placeholder="Enter sends, Shift and Enter begin a new line"
              onKeyDown={(event) => {
                if (event.key !== "Enter" || event.shiftKey || event.nativeEvent.isComposing) return
                event.preventDefault()
                event.currentTarget.form?.requestSubmit()
              }}
            />
            <div className="acts">
              {running === undefined ? (
                <button type="submit" className="btn main" disabled={model === "" || (!mayCall && key === "")}>
                  Send
                </button>
              ) : (
                <Act onClick={() => running.abort()}>Stop</Act>
              )}
            </div>
          </form>
          <div ref={end} />
        </div>
      </section>
    </Page>
  )
}
