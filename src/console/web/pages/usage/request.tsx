import { useMutation } from "@tanstack/react-query"
import { useEffect, useRef, useState } from "react"
import { Link, useLocation, useSearchParams } from "wouter"
import { call } from "../../api/client.ts"
import { useCall } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, ButtonLink, Copy, CopyCurl } from "../../kit/actions.tsx"
import { count, milliseconds, Moment, Usd, usd, words } from "../../kit/format.tsx"
import { Icon } from "../../kit/icons.tsx"
import { useKeys } from "../../kit/keys.ts"
import { withMembers } from "../../kit/lists/filters.tsx"
import { type Range } from "../../kit/lists/range.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { AgentName, CapName, Named, PrincipalName } from "../../kit/names/names.tsx"
import { TenantName } from "../../kit/names/tenants.tsx"
import { Page } from "../../kit/page.tsx"
import { Answered, Card, Facts, Fault, type Known, Soft, Tag, Verbatim } from "../../kit/parts.tsx"

type Request = Answer<"usage.get">
interface OfRequest {
  readonly of: Request
}

/** How a request ended; why it failed is shown by the pointer. */
export const Status = ({ of: { error, status } }: { readonly of: Pick<Row<"usage.list">, "error" | "status"> }) =>
  status === null && error === null ? (
    <Soft>none</Soft>
  ) : (
    <Tag tone={status === null || status >= 500 ? "bad" : status >= 400 ? "warn" : "ok"} title={error?.message}>
      {status ?? error?.code}
    </Tag>
  )

/** An id, which can be copied. */
const Id = ({ id, what }: { readonly id: string; readonly what: string }) => (
  <span className="id">
    <code>{id}</code> <Copy text={id} what={what} />
  </span>
)

const factsOf = (of: Request): Known => {
  const { agentId, apiKeyId, dialect, latencyMs, model, modelAsked, modelServed, operation } = of
  const other = (name: string | null, what: string) => (name === null || name === model ? [] : [`${what} ${name}`])
  const names = [...other(modelAsked, "requested as"), ...other(modelServed, "served by")]
  const times = [
    ...(of.upstreamLatencyMs === null ? [] : [`${milliseconds(of.upstreamLatencyMs)} of it at providers`]),
    ...(of.timeToFirstTokenMs === null ? [] : [`first token after ${milliseconds(of.timeToFirstTokenMs)}`])
  ]
  return [
    ["When", <Moment at={of.occurredAt} style="full" />],
    ["Status", <Status of={of} />],
    [
      "Model",
      <>
        {model ?? "none"} {names.length === 0 ? null : <small>{names.join(", ")}</small>}
      </>
    ],
    of.provider === null ? null : ["Provider", of.provider],
    operation === null ? null : ["Call", dialect === null ? operation : `${operation}, ${dialect}`],
    latencyMs === null
      ? null
      : [
          "Latency",
          <>
            {milliseconds(latencyMs)} <small>{times.join(", ")}</small>
          </>
        ],
    ["Cost source", `${words(of.method)}${of.late ? ", late" : ""}`],
    of.savedUsd === 0 ? null : ["Saved by the cache", <Usd amount={of.savedUsd} />],
    agentId === null ? null : ["Agent", <AgentName id={agentId} />],
    apiKeyId === null ? null : ["API key", <PrincipalName name={`api-key:${apiKeyId}`} />],
    [`agent:${agentId}`, `api-key:${apiKeyId}`].includes(of.createdBy)
      ? null
      : ["Requested by", <PrincipalName name={of.createdBy} />],
    ["Tenant", <TenantName id={of.tenantId} />],
    of.userId === null ? null : ["User", of.userId],
    of.taskType === null ? null : ["Task type", of.taskType],
    of.planId === null || agentId === null
      ? null
      : [
          "Plan",
          <Link href={`/plans?agentId=${agentId}`}>
            <Named kind="plan" id={of.planId} isPlain />
          </Link>
        ],
    of.eventTime === null ? null : ["Reported for", <Moment at={of.eventTime} style="full" />],
    of.traceId === null ? null : ["Trace", <Id id={of.traceId} what="Trace id" />],
    ["Reservation", <Id id={of.reservationId} what="Reservation id" />],
    ...Object.entries(of.metadata ?? {}).map(([name, value]) => [name, value] as const)
  ]
}

/** Why it failed, first of all. */
const WhyFailed = ({ of: { error, status } }: OfRequest) =>
  error === null ? null : (
    <div className="note" role="note">
      <Tag tone="bad">{status === null ? "failed" : `failed, ${status}`}</Tag>
      <span>
        {error.message} <code>{error.code}</code>
      </span>
    </div>
  )

const Attempts = ({ of: { attempts } }: OfRequest) =>
  attempts.length === 0 ? null : (
    <Card title="Attempts at providers">
      <Table
        label="Attempts"
        rows={attempts.map((attempt, place) => ({ ...attempt, place: place + 1 }))}
        keyOf={({ place }) => String(place)}
        columns={[
          { title: "Provider", cell: ({ provider }) => provider },
          { title: "Model", cell: ({ model }) => model },
          { title: "Status", cell: ({ error = null, status }) => <Status of={{ error, status }} /> },
          { title: "Duration", isNumber: true, cell: ({ durationMs }) => milliseconds(durationMs) },
          { title: "Why", cell: ({ error }) => <span className="wrap">{error?.message ?? "answered"}</span> }
        ]}
      />
    </Card>
  )

const meters: Readonly<Record<string, string>> = {
  "cached-input": "Input from the cache",
  "cache-write": "Written to the cache",
  "cache-write-1h": "Written to the cache for an hour",
  requests: "Request",
  searchUnits: "Search units",
  characters: "Characters",
  audioSeconds: "Seconds of audio",
  "gpu-time": "Hours of a GPU",
  spend: "Not by tokens"
}

/** Why it costs what it does, where the provider did not report its tokens. */
const reasons: Readonly<Record<string, string>> = {
  aborted: "The answer was cut off. What had arrived is charged, by the gateway's own count.",
  estimated: "The provider reported no tokens, so the gateway counted them.",
  unanswered: "No answer arrived, and the provider may have done the work, so the whole reservation is charged.",
  expired: "The reservation ended without a report of the cost, so the whole of it is charged.",
  reported: "The caller reported the cost.",
  released: "The providers failed, so nothing is charged."
}

/** The same where the time of a GPU is charged: no tokens have to be known. */
const timeReasons: Readonly<Record<string, string>> = {
  aborted: "The answer was cut off: the time until then is charged.",
  unanswered: "No answer arrived. The provider worked on it until it failed, so that time is charged.",
  expired: "The reservation ended without a report of the time, so the whole of it is charged.",
  released: "The providers failed before any work, so nothing is charged."
}

/** Where the price of the model is no price of tokens. */
const pricingText = ({ charges, operation, priceTerms, pricing }: Request): string | undefined => {
  if (pricing === "free") return "The prices of this model are all zero: it is free."
  if (pricing === "unknown" && operation !== null) return "The price of this model is not known."
  const gpu = priceTerms?.gpu
  const price = charges.find(({ meter }) => meter === "gpu-time")?.usdPerUnit ?? null
  if (pricing !== "gpu-time" || gpu === undefined || price === null) return undefined
  const time = `${milliseconds(gpu.upstreamMs)} at the provider`
  return `A GPU costs ${usd(price)} an hour and runs ${count(gpu.slots)} calls at once: this call took ${time}, and is charged its part of that time.`
}

/** A quantity with its digits that matter. */
const hours = (value: number): string => `${Number(value.toPrecision(3))} h`

const Charges = ({ of }: OfRequest) => {
  const { charges, costUsd, inputTokens, method, outputTokens, pricing, toolUses } = of
  const notes = [pricingText(of), (pricing === "gpu-time" ? timeReasons : reasons)[method]]
  return (
    <Card
      title="Cost"
      beside={
        <strong className="num">
          <Usd amount={costUsd} />
        </strong>
      }
    >
      <Table
        label="Tokens and their prices"
        rows={charges}
        keyOf={({ meter }) => meter}
        empty={[
          "It cost nothing",
          inputTokens === null
            ? "No tokens were counted."
            : `${count(inputTokens)} input tokens, ${count(outputTokens ?? 0)} output tokens.`
        ]}
        columns={[
          { title: "What", cell: ({ meter }) => meters[meter] ?? words(meter) },
          {
            title: "Tokens",
            isNumber: true,
            cell: ({ meter, tokens, units }) =>
              meter === "gpu-time" && units !== null ? hours(units) : count(units ?? tokens)
          },
          {
            title: "Price per million",
            isNumber: true,
            cell: ({ usdPerMTok, usdPerUnit }) =>
              usdPerUnit !== null ? (
                <>
                  <Usd amount={usdPerUnit} /> each
                </>
              ) : usdPerMTok === null ? null : (
                <Usd amount={usdPerMTok} />
              )
          },
          { title: "Cost", isNumber: true, cell: ({ costUsd: cost }) => <Usd amount={cost} /> }
        ]}
      />
      {notes.map((note) =>
        note === undefined ? null : (
          <p key={note} className="in">
            <small>{note}</small>
          </p>
        )
      )}
      {toolUses === null ? null : (
        <p className="in">
          <small>
            Tools of the provider:{" "}
            {Object.entries(toolUses)
              .map(([tool, uses]) => `${words(tool)} ${count(uses)} times`)
              .join(", ")}
          </small>
        </p>
      )}
    </Card>
  )
}

const Budget = ({ of: { caps, reservation, reservationId } }: OfRequest) => (
  <Card title="Budget" link={[`/reservations?search=${reservationId}`, "Reservation"]}>
    {reservation === null ? null : (
      <p className="in">
        <Usd amount={reservation.amountUsd} /> were reserved before the call; the reservation is {reservation.state}.
      </p>
    )}
    <Table
      label="Caps that counted it"
      rows={caps}
      keyOf={({ capId }) => capId}
      empty="No cap that you may see counted it"
      columns={[
        { title: "Cap", cell: ({ capId }) => <CapName id={capId} /> },
        { title: "Period", cell: ({ period }) => period },
        { title: "Counts", cell: ({ unit }) => (unit === "usd" ? "US dollars" : unit) },
        { title: "When exceeded", cell: ({ mode }) => mode }
      ]}
    />
  </Card>
)

/** JSON with its lines indented, and anything else as it is. */
const indented = (text: string): string => {
  try {
    return JSON.stringify(JSON.parse(text), null, 2)
  } catch {
    return text
  }
}

const Transcript = ({ of: { hasTranscript, reservationId } }: OfRequest) => {
  const read = useMutation({
    mutationFn: () => call("gatewayContents.get", { params: { id: reservationId } })
  })
  if (!hasTranscript) {
    return (
      <Card title="Transcript">
        <p className="in soft">
          The prompt and the answer of this request were not stored. They are stored while{" "}
          <code>Llm:Gateway:LogContent</code> is on.
        </p>
      </Card>
    )
  }
  return (
    <Card title="Transcript">
      <div className="in stack">
        {read.data === undefined ? (
          <>
            <p className="soft">Each time it is shown, an entry is added to the audit log.</p>
            <div className="acts">
              <Act needs="llm:admin" onClick={() => read.mutate()} unless={read.isPending ? "Loading" : undefined}>
                Show the transcript
              </Act>
            </div>
          </>
        ) : (
          <>
            {read.data.truncated ? <p>Only the first mebibyte of each is stored.</p> : null}
            <h3>Request</h3>
            <Verbatim label="Request" text={indented(read.data.request)} />
            <h3>Answer</h3>
            <Verbatim label="Answer" text={indented(read.data.response)} />
          </>
        )}
        <Fault cause={read.error} />
      </div>
    </Card>
  )
}

/** All that is known of a request. */
const Everything = ({ of }: OfRequest) => (
  <>
    <WhyFailed of={of} />
    <section className="card">
      <Facts className="facts in" facts={factsOf(of)} />
    </section>
    <Charges of={of} />
    <Attempts of={of} />
    <Budget of={of} />
    <Transcript of={of} />
  </>
)

const instant = (at: number) => new Date(at).toISOString()

interface Near {
  readonly id: string
  /** The filters of the list that it is in. */
  readonly query?: object
  readonly range?: Pick<Range, "from" | "to"> | undefined
}

/** A request, and how to go to the next one of its list and to the one before, with J and K. */
const useRequest = ({ id, query = {}, range }: Near) => {
  const [, go] = useLocation()
  const [search] = useSearchParams()
  const asked = useCall("usage.get", { params: { id } }, { keepsPrevious: true })
  const of = asked.data
  const at = of === undefined ? 0 : Date.parse(of.occurredAt)
  const { from, to } = range ?? {}
  const limit = 50
  const older = {
    ...query,
    ...(from === undefined || Date.parse(from) > at ? {} : { from }),
    to: instant(at + 1),
    limit
  }
  const newer = {
    ...query,
    from: instant(at),
    ...(to === undefined || Date.parse(to) <= at ? {} : { to }),
    sort: "occurredAt",
    limit
  }
  const enabled = of !== undefined
  const around = [
    useCall("usage.list", { query: older }, { enabled }),
    useCall("usage.list", { query: newer }, { enabled })
  ]
  const [next, previous] = around.map(({ data }) => {
    const items = data?.items ?? []
    return items[items.findIndex((row) => row.id === of?.id) + 1]?.id
  })
  const leadingTo = (other: string | undefined) =>
    other === undefined ? undefined : () => go(`/requests/${other}?${search}`, { replace: true })
  const ways = { next: leadingTo(next), previous: leadingTo(previous) }
  // Keys are faster than answers: the steps that were asked for are taken once it is known where they lead.
  const [steps, setSteps] = useState(0)
  useKeys({ j: () => setSteps((asked) => asked + 1), k: () => setSteps((asked) => asked - 1) })
  const isKnown = !asked.isPlaceholderData && around.every(({ data }) => data !== undefined)
  useEffect(() => {
    if (steps === 0 || !isKnown) return
    const step = steps > 0 ? ways.next : ways.previous
    setSteps(step === undefined ? 0 : steps - Math.sign(steps))
    step?.()
  }, [steps, isKnown])
  return { asked, ...ways }
}

interface Ways {
  readonly next: (() => void) | undefined
  readonly previous: (() => void) | undefined
}

const Turning = ({ next, previous }: Ways) => (
  <>
    <button
      type="button"
      className="btn quiet icon"
      aria-label="Previous request"
      title="K"
      disabled={!previous}
      onClick={previous}
    >
      <Icon name="previous" />
    </button>
    <button
      type="button"
      className="btn quiet icon"
      aria-label="Next request"
      title="J"
      disabled={!next}
      onClick={next}
    >
      <Icon name="next" />
    </button>
  </>
)

/** The page of one request. */
export const OneRequest = ({ id }: { readonly id: string }) => {
  const { asked, next, previous } = useRequest({ id })
  return (
    <Page
      title="Request"
      lead={asked.data === undefined ? undefined : <Moment at={asked.data.occurredAt} style="full" />}
      actions={
        <>
          <CopyCurl name="usage.get" input={{ params: { id } }} />
          <Turning next={next} previous={previous} />
        </>
      }
    >
      <Answered asked={asked} rows={8}>
        {(of) => <Everything of={of} />}
      </Answered>
    </Page>
  )
}

/** One request beside the list that it is in. */
export const RequestPanel = (near: Near) => {
  const { id } = near
  const [, go] = useLocation()
  const [search] = useSearchParams()
  const { asked, next, previous } = useRequest(near)
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => heading.current?.focus({ preventScroll: true }), [])
  const close = () => go(`/requests?${withMembers(search, { panel: "" })}`, { state: { of: id } })
  useKeys({ Escape: close })
  return (
    <section className="peek" aria-label="Request" aria-busy={asked.isPlaceholderData}>
      <header>
        <h2 ref={heading} tabIndex={-1}>
          Request
        </h2>
        <Turning next={next} previous={previous} />
        <ButtonLink href={`/requests/${id}`}>Open as a page</ButtonLink>
        <button type="button" className="btn quiet icon" aria-label="Close" onClick={close}>
          <Icon name="close" />
        </button>
      </header>
      <Answered asked={asked} rows={8}>
        {(of) => <Everything of={of} />}
      </Answered>
    </section>
  )
}
