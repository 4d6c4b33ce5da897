import { useState } from "react"
import { Link } from "wouter"
import { useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, textOf, TextField } from "../../kit/forms/form.tsx"
import { Moment, relative, usd, words } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { shortId, useAgents } from "../../kit/names/names.tsx"
import { Empty } from "../../kit/states.tsx"
import { TenantChoice } from "../../kit/names/tenants.tsx"

type Anomaly = Row<"anomalies.list">

const kinds = {
  spike: "spike",
  "level-shift": "lasting change",
  loop: "loop",
  "burn-rate": "cap burns fast",
  new: "new"
} as const
const tones = { open: "warn", acknowledged: "ok", dismissed: "" } as const
const targets = { agent: "agentId", model: "model", "task-type": "taskType", plan: "planId" } as const

const dayMillis = 86_400_000
const dateOf = (at: number) => new Date(at).toISOString().slice(0, 10)

/** What was charged around the episode. */
const usageOf = ({ dimension, end, key, start }: Anomaly): string => {
  if (dimension === "cap") return `/caps/${key}`
  const query = new URLSearchParams({
    range: "custom",
    timeZone: "UTC",
    first: dateOf(Date.parse(start) - dayMillis),
    last: dateOf(Date.parse(end) + dayMillis),
    [targets[dimension]]: key
  })
  return `/usage?${query}`
}

const Decide = ({
  anomaly,
  onClose,
  status
}: {
  readonly anomaly: Anomaly
  readonly onClose: () => void
  readonly status: "acknowledged" | "dismissed" | "open"
}) => {
  const verb = { acknowledged: "Acknowledge", dismissed: "Dismiss", open: "Open again" }[status]
  const change = useChange("anomalies.update", `The anomaly is ${status}`)
  return (
    <Dialog title={`${verb}: ${usd(anomaly.impactUsd)} beyond what is usual`} onClose={onClose}>
      <Form
        cause={change.error}
        onSubmit={(data) => {
          const reason = textOf(data, "reason")
          change.mutate(
            { params: { id: anomaly.id }, body: { status, ...(reason === undefined ? {} : { reason }) } },
            { onSuccess: onClose }
          )
        }}
        actions={<FormActions action={verb} isPending={change.isPending} onClose={onClose} />}
      >
        <p>
          {status === "dismissed"
            ? "A dismissed anomaly was none: the cost was expected."
            : status === "acknowledged"
              ? "An acknowledged anomaly was one, and someone takes care of it."
              : "It waits for a decision again."}
        </p>
        <TextField
          label="Reason"
          name="reason"
          required={status !== "open"}
          maxLength={500}
          hint="The audit log keeps it"
        />
      </Form>
    </Dialog>
  )
}

interface Shown {
  readonly anomaly: Anomaly
  readonly status: "acknowledged" | "dismissed" | "open"
}

/** Cost that is not as usual. */
export default function Anomalies() {
  const [shown, setShown] = useState<Shown | undefined>()
  const { isFiltered, set, values } = useFilters(["status", "kind", "dimension", "tenantId"])
  const agents = useAgents()
  const nameOf = ({ dimension, key }: Pick<Anomaly, "dimension" | "key">) =>
    dimension === "agent"
      ? (agents.find(([id]) => id === key)?.[1] ?? shortId(key))
      : dimension === "plan" || dimension === "cap"
        ? shortId(key)
        : key
  return (
    <ListPage
      title="Anomalies"
      lead="Cost that its own past makes improbable, and that is worth money. Each episode is reported once."
      filters={
        <>
          <Choice
            label="Status"
            value={values.status}
            options={["open", "acknowledged", "dismissed"]}
            onChange={(value) => set("status", value)}
          />
          <Choice
            label="Kind"
            value={values.kind}
            options={Object.entries(kinds)}
            onChange={(value) => set("kind", value)}
          />
          <Choice
            label="Of"
            value={values.dimension}
            options={(["agent", "model", "task-type", "plan", "cap"] as const).map((name) => [
              name,
              words(name).toLowerCase()
            ])}
            onChange={(value) => set("dimension", value)}
          />
          <TenantChoice value={values.tenantId} onChange={(value) => set("tenantId", value)} />
        </>
      }
      name="anomalies.list"
      input={{ query: values }}
      everySeconds={60}
      isFiltered={isFiltered}
      label="Anomalies"
      keyOf={({ id }) => id}
      rowClass={({ status }) => (status === "open" ? undefined : "gone")}
      empty={
        <Empty title="Nothing is out of the ordinary">
          <p>Costs of agents, models and task types are compared with their own past, hour by hour.</p>
        </Empty>
      }
      columns={[
        {
          title: "Of",
          cell: (anomaly) => (
            <>
              <Link href={usageOf(anomaly)} title={anomaly.key}>
                <strong>{nameOf(anomaly)}</strong>
              </Link>{" "}
              <small>{words(anomaly.dimension).toLowerCase()}</small>
            </>
          )
        },
        { title: "Kind", cell: ({ kind }) => kinds[kind] },
        {
          title: "Began",
          cell: ({ detectedAt, start }) => (
            <>
              <Moment at={start} /> <small>detected {relative(detectedAt)}</small>
            </>
          )
        },
        { title: "Usual", isNumber: true, cell: ({ expectedUsd }) => usd(expectedUsd) },
        { title: "Actual", isNumber: true, cell: ({ actualUsd }) => usd(actualUsd) },
        { title: "Impact", isNumber: true, cell: ({ impactUsd }) => <strong>{usd(impactUsd)}</strong> },
        {
          title: "Most of it",
          cell: ({ contributors }) => (
            <span className="chips">
              {contributors.slice(0, 1).map((contributor) => (
                <span key={`${contributor.dimension} ${contributor.key}`} className="chip">
                  {nameOf(contributor)} {usd(contributor.costUsd)}
                </span>
              ))}
            </span>
          )
        },
        {
          title: "Status",
          cell: ({ reason, status }) => (
            <span className={`tag ${tones[status]}`} title={reason ?? undefined}>
              {status}
            </span>
          )
        },
        {
          title: "",
          isNumber: true,
          cell: (anomaly) => (
            <span className="acts">
              {anomaly.status === "open" ? (
                <>
                  <Act needs="insights:write" onClick={() => setShown({ anomaly, status: "acknowledged" })}>
                    Acknowledge
                  </Act>
                  <Act needs="insights:write" onClick={() => setShown({ anomaly, status: "dismissed" })}>
                    Dismiss
                  </Act>
                </>
              ) : (
                <Act needs="insights:write" onClick={() => setShown({ anomaly, status: "open" })}>
                  Open again
                </Act>
              )}
            </span>
          )
        }
      ]}
    >
      {shown === undefined ? null : (
        <Decide anomaly={shown.anomaly} status={shown.status} onClose={() => setShown(undefined)} />
      )}
    </ListPage>
  )
}
