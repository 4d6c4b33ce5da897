import { Link } from "wouter"
import { type Row } from "../../api/operations.ts"
import { Moment, relative, usd, words } from "../../kit/format.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { Named } from "../../kit/names/names.tsx"
import { useTenantFilter } from "../../kit/names/tenants.tsx"
import { Noted, Tag } from "../../kit/parts.tsx"

type Anomaly = Row<"anomalies.list">

const { Act: DialogAct, Field } = formOf("anomalies.update")

const kinds = {
  spike: "spike",
  "level-shift": "lasting change",
  loop: "loop",
  "burn-rate": "fast burn",
  new: "new",
  bill: "unexplained bill"
} as const
const tones = { open: "warn", acknowledged: "ok", dismissed: "" } as const
const targets = { agent: "agentId", model: "model", "task-type": "taskType", plan: "planId" } as const

const dayMillis = 86_400_000
const dateOf = (at: number) => new Date(at).toISOString().slice(0, 10)

/** What was charged around the episode. */
const usageOf = ({ dimension, end, key, start }: Anomaly): string => {
  if (dimension === "cap") return `/caps/${key}`
  if (dimension === "provider")
    return `/reconciliation?${new URLSearchParams({ provider: key, month: start.slice(0, 7) })}`
  const query = new URLSearchParams({
    range: "custom",
    timeZone: "UTC",
    first: dateOf(Date.parse(start) - dayMillis),
    last: dateOf(Date.parse(end) + dayMillis),
    [targets[dimension]]: key
  })
  return `/usage?${query}`
}

/** What is decided, by the status after it: the verb, and what it says. */
const decisions = {
  acknowledged: ["Acknowledge", "The anomaly is real, and someone is taking care of it."],
  dismissed: ["Dismiss", "It is not an anomaly: the cost was expected."],
  open: ["Reopen", "It is waiting for a decision again."]
} as const

/** The button for a decision, and the dialog that asks why. */
const Decide = ({ anomaly, status }: { readonly anomaly: Anomaly; readonly status: keyof typeof decisions }) => {
  const [verb, meaning] = decisions[status]
  return (
    <DialogAct
      title={`${verb}: ${usd(anomaly.impactUsd)} ${anomaly.kind === "bill" ? "more billed than charged" : "above the usual"}`}
      action={verb}
      done={`The anomaly is ${status}`}
      needs="insights:write"
      input={{ params: { id: anomaly.id } }}
      body={{ status }}
    >
      <p>{meaning}</p>
      <Field label="Reason" name="reason" required={status !== "open"} hint="It is recorded in the audit log" />
    </DialogAct>
  )
}

/** What an anomaly is of, by its name. */
const nameOf = ({ dimension, key }: Pick<Anomaly, "dimension" | "key">) =>
  dimension === "agent" || dimension === "plan" || dimension === "cap" ? (
    <Named kind={dimension} id={key} isPlain />
  ) : (
    key
  )

/** Cost that is not as usual. */
export default function Anomalies() {
  return (
    <ListPage
      title="Anomalies"
      lead="Costs that are unlikely given their own history, and large enough to matter. Each episode is reported once."
      filters={[
        { key: "status", label: "Status", options: ["open", "acknowledged", "dismissed"] },
        { key: "kind", label: "Kind", options: Object.entries(kinds) },
        {
          key: "dimension",
          label: "Subject",
          options: ["agent", "model", "task-type", "plan", "cap", "provider"].map((name) => [
            name,
            words(name).toLowerCase()
          ])
        },
        useTenantFilter()
      ]}
      name="anomalies.list"
      everySeconds={60}
      rowClass={({ status }) => (status === "open" ? undefined : "gone")}
      empty={[
        "Nothing is out of the ordinary",
        "Costs of agents, models and task types are compared with their own past, hour by hour."
      ]}
      columns={[
        {
          title: "Subject",
          cell: (anomaly) => (
            <Noted
              isBelow
              value={
                <Link href={usageOf(anomaly)} title={anomaly.key}>
                  <strong>{nameOf(anomaly)}</strong>
                </Link>
              }
              note={
                <>
                  {words(anomaly.dimension).toLowerCase()}
                  {anomaly.contributors.slice(0, 1).map((one) => (
                    <span key={one.key} title={usd(one.costUsd)}>
                      , mostly {nameOf(one)}
                    </span>
                  ))}
                </>
              }
            />
          )
        },
        {
          title: "Kind",
          cell: ({ kind, reason, status }) => (
            <Noted
              isBelow
              value={kinds[kind]}
              note={
                <Tag tone={tones[status]} title={reason ?? undefined}>
                  {status}
                </Tag>
              }
            />
          )
        },
        {
          title: "Began",
          cell: ({ detectedAt, start }) => (
            <span title={`Detected ${relative(detectedAt)}`}>
              <Moment at={start} style="date" />
            </span>
          )
        },
        {
          title: "Impact",
          isNumber: true,
          cell: ({ actualUsd, expectedUsd, impactUsd }) => (
            <Noted
              isBelow
              value={<strong>{usd(impactUsd)}</strong>}
              note={`${usd(actualUsd)} instead of ${usd(expectedUsd)}`}
            />
          )
        }
      ]}
      acts={(anomaly) =>
        anomaly.status === "open" ? (
          <>
            <Decide anomaly={anomaly} status="acknowledged" />
            <Decide anomaly={anomaly} status="dismissed" />
          </>
        ) : (
          <Decide anomaly={anomaly} status="open" />
        )
      }
    />
  )
}
