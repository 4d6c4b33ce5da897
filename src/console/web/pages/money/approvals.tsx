import { useState } from "react"
import { Link } from "wouter"
import { call } from "../../api/client.ts"
import { useCall } from "../../api/hooks.ts"
import { type Input, type Row } from "../../api/operations.ts"
import { Act, type Of, useNow } from "../../kit/actions.tsx"
import { count, Moment, quantity, remaining, usd } from "../../kit/format.tsx"
import { TextField, textOf } from "../../kit/forms/form.tsx"
import { type Button, formOf } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { AgentName, PrincipalName, shortId, useAgents } from "../../kit/names/names.tsx"
import { TenantName, useTenantFilter } from "../../kit/names/tenants.tsx"
import { Facts, Noted, Soft } from "../../kit/parts.tsx"
import { useCan } from "../../shell/session.tsx"

type Pending = Row<"approvals.list">
type Cap = Pending["caps"][number]

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
        from you, or from a key or an account that you or your account’s creator created. Another approver has to
        decide, such as an account created by <code>npm run operator -- create EMAIL</code> or by a sign-in with an
        identity provider, or the service account with its key, which the first start prints.
      </p>
      <TextField
        label="Key of the service account"
        name="serviceKey"
        type="password"
        autoComplete="off"
        required
        hint="The audit log names the service account; the key is forgotten when this dialog closes"
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

/** A cap that reservations wait for, and how much they lack together. */
interface Shortage {
  readonly cap: Cap
  readonly short: number
}

/** How much of a reservation counts on a cap; a ceiling is in dollars. */
const countedOn = ({ requested = 0, unit }: Cap, ceiling: number): number =>
  unit === "usd" ? Math.min(requested, ceiling) : requested

/** What some reservations lack together, each at most at a ceiling: they are approved one after the other. */
const shortagesOf = (items: ReadonlyArray<Pending>, ceiling: number): ReadonlyArray<Shortage> => {
  const found = new Map<string, Shortage>()
  for (const { caps } of items) {
    for (const cap of caps) {
      const counted = countedOn(cap, ceiling)
      // What counts nothing on a cap is not held by it.
      if (counted === 0 && cap.limit !== undefined) continue
      const key = `${cap.capId} ${JSON.stringify(cap.scope)}`
      const { limit = 0, mode, reserved = 0, spent = 0 } = cap
      const left = found.get(key)?.short ?? spent + reserved - limit
      // Of a cap over all tenants no more is known than that it has no room.
      const isHidden = cap.limit === undefined && !cap.hasRoom
      const short = isHidden ? Infinity : mode === "soft" ? -Infinity : left + counted
      found.set(key, { cap, short })
    }
  }
  return [...found.values()].filter(({ short }) => short > 1e-10)
}

const CapLine = ({ of: { cap, short } }: Of<Shortage>) => {
  const { headroom, limit, mayRaise, mode, name, reserved, resetsAt, spent, unit } = cap
  if (unit === undefined || limit === undefined)
    return <li>A cap over all tenants is full; it is not yours to raise.</li>
  return (
    <li>
      <Link href={`/caps/${cap.capId}`}>
        <strong>{name}</strong>
      </Link>{" "}
      lacks <strong>{quantity(short, unit)}</strong>: {quantity(spent ?? 0, unit)} of {quantity(limit, unit)} is spent,{" "}
      {quantity(reserved ?? 0, unit)} reserved and {quantity(headroom ?? 0, unit)} free
      {resetsAt === null ? (
        ""
      ) : (
        <>
          , until it begins again on <Moment at={resetsAt} style="date" />
        </>
      )}
      .
      {mayRaise
        ? ""
        : mode === "hard"
          ? " It is a hard cap, which no approval raises: raise it on its page, or approve less."
          : " You cannot raise it."}
    </li>
  )
}

/** Who asks, and for what. */
const Asked = ({ of: { reservation } }: Of<Pending>) => {
  const { agentId, amountUsd, createdBy, model, planId, provider, taskType, tenantId, tokens, userId } = reservation
  return (
    <Facts
      facts={[
        ["Requested by", agentId === null ? <PrincipalName name={createdBy} /> : <AgentName id={agentId} />],
        agentId === null ? null : ["With", <PrincipalName name={createdBy} />],
        ["Tenant", <TenantName id={tenantId} />],
        ["Amount", <strong>{usd(amountUsd)}</strong>],
        tokens === 0 ? null : ["Tokens", count(tokens)],
        ["Model", model === null ? <Soft>any</Soft> : [model, provider].filter((text) => text !== null).join(" at ")],
        taskType === null ? null : ["Task type", taskType],
        userId === null ? null : ["User", userId],
        planId === null ? null : ["Plan", <Link href={`/reservations?planId=${planId}`}>{shortId(planId)}</Link>],
        ["Requested", <Moment at={reservation.createdAt} style="full" />],
        ["Expires in", <Countdown at={reservation.expiresAt} />]
      ]}
    />
  )
}

const raisesText = (shortages: ReadonlyArray<Shortage>): string => {
  const [first, ...others] = shortages
  if (first === undefined) return "Approve"
  const { name, unit = "usd" } = first.cap
  return others.length === 0
    ? `Approve and raise ${name} by ${quantity(first.short, unit)}`
    : `Approve and raise ${shortages.length} caps`
}

const ApproveDialog = ({ items: given, onDecided }: Pick<Decision, "items" | "onDecided">) => {
  const mayRaise = useCan()("budgets:write")
  const [ceiling, setCeiling] = useState("")
  const ids = given.map(({ reservation }) => reservation.id).join(",")
  // What a cap lacks changes while the dialog is open, and it promises no other raise than it makes.
  const query = { ids, limit: given.length }
  const items = useCall("approvals.list", { query }, { everySeconds: 5 }).data?.items ?? given
  const most = ceiling.trim() === "" || Number.isNaN(Number(ceiling)) ? Infinity : Number(ceiling)
  const shortages = shortagesOf(items, most)
  const fixed = shortages.filter(({ cap }) => !cap.mayRaise)
  const lacksCapability = shortages.length > fixed.length && !mayRaise
  const [only] = items.length === 1 ? items : []
  return (
    <approve.Dialog
      title={titleOf("Approve", items)}
      action={fixed.length > 0 || lacksCapability ? "Approve" : raisesText(shortages)}
      isDisabled={fixed.length > 0 || lacksCapability || items.length === 0}
      done={doneOf(items, "approved")}
      body={shortages.length > 0 ? { override: true } : {}}
      send={decideAll(items, (input) => call("approvals.approve", input))}
      onDone={onDecided}
      wide
    >
      {only === undefined ? null : <Asked of={only} />}
      {items.length === 0 ? (
        <p>Nothing is waiting any more: it was decided elsewhere, or has expired.</p>
      ) : shortages.length === 0 ? (
        <p>Every cap has room for {items.length === 1 ? "it" : "them"} now.</p>
      ) : (
        <ul className="plain">
          {shortages.map((one) => (
            <CapLine key={`${one.cap.capId} ${JSON.stringify(one.cap.scope)}`} of={one} />
          ))}
        </ul>
      )}
      {lacksCapability ? (
        <p className="fault">
          To raise a cap you need the capability <code>budgets:write</code>; a ceiling that fits needs no raise.
        </p>
      ) : fixed.length === 0 && shortages.length > 0 ? (
        <p>A raise covers exactly what is missing, and lasts until the period of the cap ends.</p>
      ) : null}
      <div className="row2">
        <approve.Field
          label="Ceiling in US dollars"
          name="ceilingUsd"
          placeholder={only === undefined ? "all of it" : String(only.reservation.amountUsd)}
          hint="At most this much of each is approved; empty for all of it"
          value={ceiling}
          onChange={(event) => setCeiling(event.target.value)}
        />
        <approve.Field label="Reason" name="reason" placeholder="Month-end close" />
      </div>
      {items.some(({ reservation }) => reservation.origin === "gateway") ? (
        <p>
          The call was not made. Its caller repeats it with the header <code>x-reservation-id</code>
          {only === undefined ? null : (
            <>
              : <code>{only.reservation.id}</code>
            </>
          )}
          .
        </p>
      ) : null}
      <FourEyes items={items} />
    </approve.Dialog>
  )
}

const Approve = ({ button, items, label = "Approve", onDecided, unless }: Decision) => (
  <Act
    kind={button}
    needs="budgets:approve"
    unless={unless}
    opens={<ApproveDialog items={items} onDecided={onDecided} />}
  >
    {label}
  </Act>
)

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
    {items.length === 1 && items[0] !== undefined ? <Asked of={items[0]} /> : null}
    <p>{items.length === 1 ? "The reservation ends" : "The reservations end"}, and the caller gets the reason.</p>
    <FourEyes items={items} />
    <deny.Field label="Reason" name="reason" placeholder="Not this month" />
  </deny.Act>
)

/** The caps that have no room for it. */
const waitedFor = (caps: ReadonlyArray<Cap>) => caps.filter(({ hasRoom }) => !hasRoom)

/** Reservations that a cap holds until someone decides. */
export default function Approvals() {
  const [chosen, setChosen] = useState<ReadonlyArray<Pending>>([])
  const forget = () => setChosen([])
  const which = chosen.length === 0 ? "selected" : chosen.length
  const unless = chosen.length === 0 ? "Select reservations first" : undefined
  const together = { items: chosen, onDecided: forget, unless }
  return (
    <ListPage
      title="Approvals"
      lead="Reservations that exceed a cap. Each waits for a decision until it expires."
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
        "Nothing is waiting for approval",
        "A cap that asks for approval holds what exceeds it, and it appears here."
      ]}
      columns={[
        {
          title: "Select",
          cell: (item) => (
            <input
              type="checkbox"
              aria-label={`Select ${usd(item.reservation.amountUsd)} of ${item.reservation.createdBy}`}
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
          title: "Requested by",
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
          title: "Waits for",
          cell: ({ caps }) => (
            <span className="chips">
              {waitedFor(caps)
                .slice(0, 2)
                .map(({ capId, name, short = 0, unit }) => (
                  <span key={capId}>
                    <Link className="chip" href={`/caps/${capId}`}>
                      {name ?? "a cap over all tenants"}
                    </Link>{" "}
                    {unit === undefined ? null : <small>{quantity(short, unit)} short</small>}
                  </span>
                ))}
              {waitedFor(caps).length > 2 ? <small>and {waitedFor(caps).length - 2} more</small> : null}
              {waitedFor(caps).length === 0 ? <Soft>all have room now</Soft> : null}
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
