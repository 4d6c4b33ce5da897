import { useMutation } from "@tanstack/react-query"
import { useState } from "react"
import { Link } from "wouter"
import { call } from "../../api/client.ts"
import { queries } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, FormActions, useNow } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { CheckField, Form, numberOf, textOf, TextField } from "../../kit/forms/form.tsx"
import { count, remaining, usd } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { AgentName, PrincipalName, useAgents } from "../../kit/names/names.tsx"
import { Empty } from "../../kit/states.tsx"
import { announce } from "../../kit/toast.tsx"
import { useCan } from "../../shell/session.tsx"
import { TenantChoice } from "../../kit/names/tenants.tsx"

type Pending = Row<"approvals.list">

const Countdown = ({ at }: { readonly at: string }) => {
  const now = useNow(1)
  const isClose = Date.parse(at) - now < 60_000
  return <span className={`num ${isClose ? "fault" : ""}`}>{remaining(at, now)}</span>
}

const sum = (items: ReadonlyArray<Pending>) =>
  usd(items.reduce((total, { reservation }) => total + reservation.amountUsd, 0))

interface Decision {
  readonly items: ReadonlyArray<Pending>
  readonly onClose: () => void
}

/** Nothing, or the key that decides in the place of the one who is signed in. */
interface As {
  readonly headers?: Readonly<Record<string, string>>
}

/** Says that someone else has to decide, and takes the key of the service account, which may decide everything. */
const FourEyes = ({ items }: Pick<Decision, "items">) => {
  const own = items.filter(({ mayDecide }) => !mayDecide)
  return own.length === 0 ? null : (
    <>
      <p>
        {items.length === 1 ? "This request" : own.length === 1 ? "One of them" : `${count(own.length)} of them`} came
        from you, or from a key or an account that you or your account’s maker have made. Another approver has to
        decide, such as an account made by <code>npm run operator -- create EMAIL</code> or by a sign-in with an
        identity provider, or the service account with its key, which the first start prints.
      </p>
      <TextField
        label="Key of the service account"
        name="serviceKey"
        type="password"
        autoComplete="off"
        required
        hint="The audit log names the service account; the key is forgotten with this dialog"
      />
    </>
  )
}

/** Decides on all of them; a refusal of one is shown, and the list has those that are left. */
const useDecision = (
  items: ReadonlyArray<Pending>,
  done: string,
  decide: (id: string, data: FormData, as: As) => Promise<unknown>
) =>
  useMutation({
    mutationFn: async (data: FormData) => {
      const key = textOf(data, "serviceKey")
      const as = key === undefined ? {} : { headers: { "x-api-key": key } }
      const decided = await Promise.allSettled(items.map(({ reservation }) => decide(reservation.id, data, as)))
      const refused = decided.find(({ status }) => status === "rejected")
      if (refused?.status === "rejected") throw refused.reason
    },
    onSuccess: () => announce(items.length === 1 ? `The reservation is ${done}` : `${items.length} are ${done}`),
    onSettled: () => queries.invalidateQueries()
  })

const Approve = ({ items, onClose }: Decision) => {
  const may = useCan()
  const decision = useDecision(items, "approved", (reservationId, data, as) => {
    const ceilingUsd = numberOf(data, "ceilingUsd")
    const reason = textOf(data, "reason")
    return call("approvals.approve", {
      ...as,
      params: { reservationId },
      body: {
        ...(ceilingUsd === undefined ? {} : { ceilingUsd }),
        ...(reason === undefined ? {} : { reason }),
        ...(data.has("override") ? { override: true } : {})
      }
    })
  })
  return (
    <Dialog
      title={items.length === 1 ? `Approve ${sum(items)}` : `Approve ${items.length}, ${sum(items)}`}
      onClose={onClose}
    >
      <Form
        cause={decision.error}
        onSubmit={(data) => decision.mutate(data, { onSuccess: onClose })}
        actions={<FormActions action="Approve" isPending={decision.isPending} onClose={onClose} />}
      >
        <TextField
          label="Ceiling in US dollars"
          name="ceilingUsd"
          type="number"
          min={0}
          step="any"
          placeholder={items.length === 1 ? String(items[0]?.reservation.amountUsd) : "all of it"}
          hint="At most this much of each is approved; empty for all of it"
        />
        <TextField label="Reason" name="reason" maxLength={500} placeholder="Month-end close" />
        <CheckField
          label="Raise the caps by what is short"
          name="override"
          disabled={!may("budgets:write")}
          hint={
            may("budgets:write")
              ? "Where a cap that asks for approval has no room; a hard cap is never raised"
              : "Needs the capability budgets:write"
          }
        />
        {items.some(({ reservation }) => reservation.origin === "gateway") ? (
          <p>
            The call was not made. Its caller repeats it with the header <code>x-reservation-id</code>
            {items.length === 1 ? (
              <>
                : <code>{items[0]?.reservation.id}</code>
              </>
            ) : null}
            .
          </p>
        ) : null}
        <FourEyes items={items} />
      </Form>
    </Dialog>
  )
}

const Deny = ({ items, onClose }: Decision) => {
  const decision = useDecision(items, "denied", (reservationId, data, as) =>
    call("approvals.deny", { ...as, params: { reservationId }, body: { reason: textOf(data, "reason") ?? "" } })
  )
  return (
    <Dialog title={items.length === 1 ? `Deny ${sum(items)}` : `Deny ${items.length}, ${sum(items)}`} onClose={onClose}>
      <Form
        cause={decision.error}
        onSubmit={(data) => decision.mutate(data, { onSuccess: onClose })}
        actions={<FormActions action="Deny" isPending={decision.isPending} onClose={onClose} />}
      >
        <p>
          {items.length === 1 ? "The reservation ends" : "The reservations end"}, and the caller is told the reason.
        </p>
        <FourEyes items={items} />
        <TextField label="Reason" name="reason" required maxLength={500} placeholder="Not this month" />
      </Form>
    </Dialog>
  )
}

type Shown = { readonly what: "approve" | "deny"; readonly items: ReadonlyArray<Pending> }

/** Reservations that a cap holds until someone decides. */
export default function Approvals() {
  const [shown, setShown] = useState<Shown | undefined>()
  const [chosen, setChosen] = useState<ReadonlyArray<Pending>>([])
  const { isFiltered, set, values } = useFilters(["agentId", "tenantId"])
  const agents = useAgents()
  const close = () => {
    setShown(undefined)
    setChosen([])
  }
  const none = chosen.length === 0 ? "Choose reservations first" : undefined
  return (
    <ListPage
      title="Approvals"
      lead="Reservations that a cap had no room for. Each waits for a decision until it expires."
      actions={
        <>
          <Act needs="budgets:approve" unless={none} onClick={() => setShown({ what: "deny", items: chosen })}>
            Deny {chosen.length === 0 ? "chosen" : chosen.length}
          </Act>
          <Act
            kind="main"
            needs="budgets:approve"
            unless={none}
            onClick={() => setShown({ what: "approve", items: chosen })}
          >
            Approve {chosen.length === 0 ? "chosen" : chosen.length}
          </Act>
        </>
      }
      filters={
        <>
          <Choice label="Agent" value={values.agentId} options={agents} onChange={(value) => set("agentId", value)} />
          <TenantChoice value={values.tenantId} onChange={(value) => set("tenantId", value)} />
        </>
      }
      name="approvals.list"
      input={{ query: values }}
      everySeconds={10}
      isFiltered={isFiltered}
      label="Held reservations"
      keyOf={({ reservation }) => reservation.id}
      empty={
        <Empty title="Nothing waits for an approval">
          <p>A cap that asks for approval holds what it has no room for, and it appears here.</p>
        </Empty>
      }
      columns={[
        {
          title: "Choose",
          cell: (item) => (
            <input
              type="checkbox"
              aria-label={`Choose ${usd(item.reservation.amountUsd)} of ${item.reservation.createdBy}`}
              checked={chosen.some(({ reservation }) => reservation.id === item.reservation.id)}
              onChange={(event) =>
                setChosen(
                  event.target.checked
                    ? [...chosen, item]
                    : chosen.filter(({ reservation }) => reservation.id !== item.reservation.id)
                )
              }
            />
          )
        },
        { title: "Amount", isNumber: true, cell: ({ reservation }) => <strong>{usd(reservation.amountUsd)}</strong> },
        { title: "Expires in", isNumber: true, cell: ({ reservation }) => <Countdown at={reservation.expiresAt} /> },
        {
          title: "Asked by",
          cell: ({ reservation: { agentId, createdBy } }) =>
            agentId === null ? <PrincipalName name={createdBy} /> : <AgentName id={agentId} />
        },
        {
          title: "For",
          cell: ({ reservation: { model, taskType, tokens } }) => (
            <>
              {[model, taskType].filter((text) => text !== null).join(", ") || "anything"}{" "}
              {tokens === 0 ? null : (
                <>
                  <br />
                  <small>{count(tokens)} tokens</small>
                </>
              )}
            </>
          )
        },
        {
          title: "Caps",
          cell: ({ caps }) => (
            <span className="chips">
              {caps.slice(0, 2).map(({ capId, headroom, name }) => (
                <Link key={capId} className="chip" href={`/caps/${capId}`}>
                  {name ?? capId}
                  {headroom === undefined ? null : `: ${headroom} free`}
                </Link>
              ))}
              {caps.length > 2 ? <small>and {caps.length - 2} more</small> : null}
            </span>
          )
        },
        {
          title: "",
          isNumber: true,
          cell: (item) => (
            <span className="acts">
              <Act needs="budgets:approve" onClick={() => setShown({ what: "approve", items: [item] })}>
                Approve
              </Act>
              <Act needs="budgets:approve" kind="bad" onClick={() => setShown({ what: "deny", items: [item] })}>
                Deny
              </Act>
            </span>
          )
        }
      ]}
    >
      {shown?.what === "approve" ? <Approve items={shown.items} onClose={close} /> : null}
      {shown?.what === "deny" ? <Deny items={shown.items} onClose={close} /> : null}
    </ListPage>
  )
}
