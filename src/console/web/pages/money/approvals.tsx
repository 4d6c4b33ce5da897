import { useState } from "react"
import { Link } from "wouter"
import { call } from "../../api/client.ts"
import { type Input, type Row } from "../../api/operations.ts"
import { useNow } from "../../kit/actions.tsx"
import { count, remaining, usd } from "../../kit/format.tsx"
import { TextField, textOf } from "../../kit/forms/form.tsx"
import { type Button, formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { AgentName, PrincipalName, useAgents } from "../../kit/names/names.tsx"
import { useTenantFilter } from "../../kit/names/tenants.tsx"
import { Noted } from "../../kit/parts.tsx"
import { useCan } from "../../shell/session.tsx"

type Pending = Row<"approvals.list">

const approve = formOf("approvals.approve")
const deny = formOf("approvals.deny")

const Countdown = ({ at }: { readonly at: string }) => {
  const now = useNow(1)
  const isClose = Date.parse(at) - now < 60_000
  return <span className={`num ${isClose ? "fault" : ""}`}>{remaining(at, now)}</span>
}

const sum = (items: ReadonlyArray<Pending>) =>
  usd(items.reduce((total, { reservation }) => total + reservation.amountUsd, 0))

const titleOf = (verb: string, items: ReadonlyArray<Pending>) =>
  items.length === 1 ? `${verb} ${sum(items)}` : `${verb} ${items.length}, ${sum(items)}`

interface Decision extends Pick<Button, "button" | "label" | "unless"> {
  readonly items: ReadonlyArray<Pending>
  readonly onDecided: () => void
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

interface Decided<Body> {
  readonly headers?: Readonly<Record<string, string>>
  readonly params: { readonly reservationId: string }
  readonly body: Body
}

/** Decides on all of them; a refusal of one is shown, and the list has those that are left. */
const decideAll =
  <Body,>(items: ReadonlyArray<Pending>, decide: (input: Decided<Body>) => Promise<unknown>) =>
  async (body: Body, data: FormData): Promise<void> => {
    const key = textOf(data, "serviceKey")
    const as = key === undefined ? {} : { headers: { "x-api-key": key } }
    const decided = await Promise.allSettled(
      items.map(({ reservation }) => decide({ ...as, params: { reservationId: reservation.id }, body }))
    )
    const refused = decided.find(({ status }) => status === "rejected")
    if (refused?.status === "rejected") throw refused.reason
  }

const doneOf = (items: ReadonlyArray<Pending>, done: string) =>
  items.length === 1 ? `The reservation is ${done}` : `${items.length} are ${done}`

const Approve = ({ items, onDecided, ...button }: Decision) => {
  const mayRaise = useCan()("budgets:write")
  return (
    <approve.Act
      needs="budgets:approve"
      {...button}
      title={titleOf("Approve", items)}
      action="Approve"
      done={doneOf(items, "approved")}
      send={decideAll(items, (input) => call("approvals.approve", input))}
      onDone={onDecided}
    >
      <approve.Field
        label="Ceiling in US dollars"
        name="ceilingUsd"
        placeholder={items.length === 1 ? String(items[0]?.reservation.amountUsd) : "all of it"}
        hint="At most this much of each is approved; empty for all of it"
      />
      <approve.Field label="Reason" name="reason" placeholder="Month-end close" />
      <approve.Field
        label="Raise the caps by what is short"
        name="override"
        disabled={!mayRaise}
        hint={
          mayRaise
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
    </approve.Act>
  )
}

const Deny = ({ items, onDecided, ...button }: Decision) => (
  <deny.Act
    needs="budgets:approve"
    {...button}
    title={titleOf("Deny", items)}
    action="Deny"
    done={doneOf(items, "denied")}
    send={decideAll(items, (input) => call("approvals.deny", input as Input<"approvals.deny">))}
    onDone={onDecided}
  >
    <p>{items.length === 1 ? "The reservation ends" : "The reservations end"}, and the caller gets the reason.</p>
    <FourEyes items={items} />
    <deny.Field label="Reason" name="reason" placeholder="Not this month" />
  </deny.Act>
)

/** Reservations that a cap holds until someone decides. */
export default function Approvals() {
  const [chosen, setChosen] = useState<ReadonlyArray<Pending>>([])
  const forget = () => setChosen([])
  const which = chosen.length === 0 ? "chosen" : chosen.length
  const unless = chosen.length === 0 ? "Choose reservations first" : undefined
  const together = { items: chosen, onDecided: forget, unless }
  return (
    <ListPage
      title="Approvals"
      lead="Reservations that a cap had no room for. Each waits for a decision until it expires."
      actions={
        <>
          <Deny {...together} label={`Deny ${which}`} />
          <Approve {...together} label={`Approve ${which}`} button="main" />
        </>
      }
      filters={[{ key: "agentId", label: "Agent", options: useAgents() }, useTenantFilter()]}
      name="approvals.list"
      everySeconds={10}
      label="Held reservations"
      keyOf={({ reservation }) => reservation.id}
      empty={[
        "Nothing waits for an approval",
        "A cap that asks for approval holds what it has no room for, and it appears here."
      ]}
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
            <Noted
              isBelow
              value={[model, taskType].filter((text) => text !== null).join(", ") || "anything"}
              note={tokens === 0 ? null : `${count(tokens)} tokens`}
            />
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
        }
      ]}
      acts={(item) => (
        <>
          <Approve items={[item]} onDecided={forget} />
          <Deny items={[item]} onDecided={forget} button="bad" />
        </>
      )}
    />
  )
}
