import { useState } from "react"
import { Link, Redirect, useParams } from "wouter"
import { Failure } from "../../api/client.ts"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, Confirm, CopyCurl, FormActions } from "../../kit/actions.tsx"
import { CapBar, scopeText } from "../../kit/charts/cap-bar.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, instantOf, numberOf, textOf, TextField } from "../../kit/forms/form.tsx"
import { Moment, percent, quantity } from "../../kit/format.tsx"
import { List } from "../../kit/lists/list.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { Page } from "../../kit/page.tsx"
import { refusalColumns, useRefusals } from "../usage/refusals.tsx"
import { CapForm } from "./cap-form.tsx"
import { type Cap, DeleteCap, modes, PauseCap, periodText, spentThresholds } from "./caps.tsx"

type Grant = Row<"budgetCaps.listGrants">

const Raise = ({ cap, onClose }: { readonly cap: Cap; readonly onClose: () => void }) => {
  const raise = useChange("budgetCaps.createGrant", "The cap is raised")
  return (
    <Dialog title={`Raise ${cap.name}`} onClose={onClose}>
      <Form
        cause={raise.error}
        onSubmit={(data) => {
          const expiresAt = instantOf(data, "expiresAt")
          raise.mutate(
            {
              params: { id: cap.id },
              body: {
                amount: numberOf(data, "amount") ?? 0,
                reason: textOf(data, "reason") ?? "",
                ...(expiresAt === undefined ? {} : { expiresAt })
              }
            },
            { onSuccess: onClose }
          )
        }}
        actions={<FormActions action="Raise" isPending={raise.isPending} onClose={onClose} />}
      >
        <p>A raise is added to the limit of {quantity(cap.limit, cap.unit)} until it expires or is ended.</p>
        <TextField
          label={`By how much, in ${cap.unit === "usd" ? "US dollars" : cap.unit}`}
          name="amount"
          type="number"
          min={0}
          step="any"
          required
        />
        <TextField label="Reason" name="reason" required maxLength={500} placeholder="Month-end close" />
        <TextField
          label="Expires"
          name="expiresAt"
          type="datetime-local"
          hint="Local time; empty for one that lasts until it is ended"
        />
      </Form>
    </Dialog>
  )
}

const Counters = ({ cap }: { readonly cap: Cap }) => {
  const use = useCall("budgetCaps.status", { query: { capId: cap.id, limit: 100 } }, { everySeconds: 15 })
  return (
    <section className="card">
      <header>
        <h2>Use in this period</h2>
      </header>
      <div className="in stack">
        <Answered asked={use}>
          {({ items, nextCursor }) =>
            items.length === 0 ? (
              <Empty title="Nothing was spent under it in this period" />
            ) : (
              <>
                {items.map((counter) => (
                  <CapBar
                    key={JSON.stringify(counter.scope)}
                    cap={counter}
                    mode={cap.mode}
                    thresholds={spentThresholds(cap)}
                  />
                ))}
                {nextCursor === null ? null : <small>The first 100 counters are shown.</small>}
              </>
            )
          }
        </Answered>
      </div>
    </section>
  )
}

const isOver = ({ endedAt, expiresAt }: Grant) =>
  endedAt !== null || (expiresAt !== null && Date.parse(expiresAt) <= Date.now())

const Grants = ({ cap, onEnd }: { readonly cap: Cap; readonly onEnd: (grant: Grant) => void }) => {
  const grants = useCall("budgetCaps.listGrants", { params: { id: cap.id }, query: { limit: 50 } })
  return (
    <section className="card">
      <header>
        <h2>Raises</h2>
      </header>
      <Answered asked={grants}>
        {({ items }) =>
          items.length === 0 ? (
            <Empty title="It was never raised" />
          ) : (
            <Table
              label="Raises"
              rows={items}
              keyOf={({ id }) => id}
              rowClass={(grant) => (isOver(grant) ? "gone" : undefined)}
              columns={[
                { title: "By", isNumber: true, cell: ({ amount }) => quantity(amount, cap.unit) },
                { title: "Reason", cell: ({ reason }) => reason },
                { title: "Granted", cell: ({ createdAt }) => <Moment at={createdAt} /> },
                { title: "By whom", cell: ({ createdBy }) => createdBy },
                {
                  title: "Until",
                  cell: ({ endedAt, expiresAt }) =>
                    (endedAt ?? expiresAt) === null ? "it is ended" : <Moment at={endedAt ?? expiresAt} style="full" />
                },
                {
                  title: "",
                  isNumber: true,
                  cell: (grant) => (
                    <Act
                      needs="budgets:write"
                      kind="bad"
                      unless={isOver(grant) ? "It is over" : undefined}
                      onClick={() => onEnd(grant)}
                    >
                      End
                    </Act>
                  )
                }
              ]}
            />
          )
        }
      </Answered>
    </section>
  )
}

const Alerts = ({ cap }: { readonly cap: Cap }) => (
  <>
    <h2>Alerts</h2>
    <List
      name="budgetAlerts.list"
      input={{ query: { capId: cap.id } }}
      label="Alerts"
      keyOf={({ id }) => id}
      empty={<Empty title="No threshold was passed yet" />}
      columns={[
        { title: "When", cell: ({ occurredAt }) => <Moment at={occurredAt} style="full" /> },
        { title: "Threshold", cell: ({ measure, percent: at }) => `${percent(at, 0)} ${measure}` },
        { title: "Of", cell: ({ scope }) => <span className="chip">{scopeText(scope)}</span> },
        { title: "Spent", isNumber: true, cell: ({ spent, unit }) => quantity(spent, unit) },
        { title: "Reserved", isNumber: true, cell: ({ reserved, unit }) => quantity(reserved, unit) },
        { title: "Limit", isNumber: true, cell: ({ limit, unit }) => quantity(limit, unit) }
      ]}
    />
  </>
)

const Refusals = ({ cap }: { readonly cap: Cap }) => {
  const { latest, times } = useRefusals({ entityId: cap.id })
  return (
    <section className="card">
      <header>
        <h2>Refused in 24 hours</h2>
        <Link href={`/requests?tab=refused&entityId=${cap.id}`}>All refused</Link>
      </header>
      {latest.length === 0 ? (
        <Empty title="It refused nothing" />
      ) : (
        <>
          <div className="in">
            <span className="tag warn">{times} refused</span>
          </div>
          <Table label="Refused" rows={latest.slice(0, 5)} keyOf={({ id }) => id} columns={refusalColumns} />
        </>
      )}
    </section>
  )
}

type Shown = { readonly what: "edit" | "pause" | "delete" | "raise" } | { readonly what: "end"; readonly grant: Grant }

/** One cap: its counters, raises and alerts. */
export default function OneCap() {
  const { id = "" } = useParams()
  const [shown, setShown] = useState<Shown | undefined>()
  const close = () => setShown(undefined)
  const may = useCan()
  const asked = useCall("budgetCaps.get", { params: { id } })
  const cap = asked.data
  // It was just deleted, here or elsewhere.
  if (cap !== undefined && asked.error instanceof Failure && asked.error.status === 404) return <Redirect to="/caps" />
  const open = (what: "edit" | "pause" | "delete" | "raise") => () => setShown({ what })
  return (
    <Page
      title={cap?.name ?? "Cap"}
      lead={
        cap === undefined
          ? undefined
          : `${quantity(cap.limit, cap.unit)} ${periodText(cap)} on ${scopeText(cap.scope)}; when it is full it ${modes[cap.mode]}.`
      }
      actions={
        cap === undefined ? null : (
          <>
            {cap.status === "paused" ? <span className="tag">paused</span> : null}
            <CopyCurl name="budgetCaps.status" input={{ query: { capId: id } }} />
            <Act needs="budgets:write" onClick={open("raise")}>
              Raise
            </Act>
            <Act needs="budgets:write" onClick={open("edit")}>
              Edit
            </Act>
            <Act needs="budgets:write" onClick={open("pause")}>
              {cap.status === "active" ? "Pause" : "Resume"}
            </Act>
            <Act needs="budgets:write" kind="bad" onClick={open("delete")}>
              Delete
            </Act>
          </>
        )
      }
    >
      <Answered asked={asked}>
        {(cap) => (
          <>
            <Counters cap={cap} />
            {may("audit-logs:read") ? <Refusals cap={cap} /> : null}
            <Grants cap={cap} onEnd={(grant) => setShown({ what: "end", grant })} />
            <Alerts cap={cap} />
            {shown?.what === "raise" ? <Raise cap={cap} onClose={close} /> : null}
            {shown?.what === "edit" ? <CapForm cap={cap} onClose={close} /> : null}
            {shown?.what === "pause" ? <PauseCap cap={cap} onClose={close} /> : null}
            {shown?.what === "delete" ? <DeleteCap cap={cap} onClose={close} /> : null}
            {shown?.what === "end" ? (
              <Confirm
                name="budgetCaps.endGrant"
                input={{ params: { id, grantId: shown.grant.id } }}
                title={`End a raise of ${cap.name}`}
                action="End the raise"
                done="The raise is ended"
                onClose={close}
              >
                <p>
                  {quantity(shown.grant.amount, cap.unit)}, granted for “{shown.grant.reason}”, are no longer part of
                  the limit. What is already spent stays spent.
                </p>
              </Confirm>
            ) : null}
          </>
        )}
      </Answered>
    </Page>
  )
}
