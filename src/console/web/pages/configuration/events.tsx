import { type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { CheckField } from "../../kit/forms/form.tsx"
import { ConfirmAct, formOf, SwitchAct } from "../../kit/forms/operation.tsx"
import { SigningSecret } from "../../kit/forms/secret.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { TenantField, useTenantColumn, useTenantFilter } from "../../kit/names/tenants.tsx"
import { Tag } from "../../kit/parts.tsx"
import { EventTypePicker } from "./event-types.tsx"

type Subscription = Row<"eventSubscriptions.list">

const write = "events:write"
const tones = { active: "ok", disabled: "bad", refused: "warn" } as const
const create = formOf("eventSubscriptions.create")
const update = formOf("eventSubscriptions.update")

/** The subscriber of the CloudEvents Subscriptions API brings the secret, which here is the page. */
const newSecret = () => `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`

const Fields = ({ types }: { readonly types?: ReadonlyArray<string> }) => (
  <>
    <create.Field
      label="Receiver"
      name="sink"
      hint="It is asked for consent with OPTIONS and WebHook-Request-Origin, and receives nothing without it"
    />
    <EventTypePicker label="Event types" name="types" every={[]} initial={types} />
  </>
)

const Subscribe = () => {
  const secret = newSecret()
  return (
    <create.Make
      title="Add a receiver"
      action="Add the receiver"
      done="The receiver consented, and is subscribed"
      needs={write}
      body={(body, data) => (data.has("isSigned") ? { ...body, config: { secret } } : body)}
      shows={(_, data) =>
        data.has("isSigned") ? <SigningSecret title="Secret of the subscription" secret={secret} /> : null
      }
    >
      <Fields />
      <TenantField none="None (the whole installation)" />
      <CheckField
        label="Sign deliveries"
        name="isSigned"
        hint="By Standard Webhooks, with a secret that is shown once"
      />
    </create.Make>
  )
}

/** What a change of something else leaves as it is: the operation replaces all, and asks the receivers of others than disabled ones. */
const kept = ({ config, filters, sink, status, types }: Subscription) => ({
  config,
  filters,
  sink,
  types,
  ...(status === "disabled" ? { status } : {})
})

/** Changes a subscription; its filters, how it is sent and its secret stay as they are. */
const Edit = ({ of }: Of<Subscription>) => (
  <update.Change
    title="Change the subscription"
    done="The subscription is changed"
    of={of}
    needs={write}
    body={kept(of)}
  >
    <Fields types={of.types} />
  </update.Change>
)

const Disable = ({ of }: Of<Subscription>) => (
  <SwitchAct
    name="eventSubscriptions.update"
    of={of}
    isOn={of.status === "active"}
    off="Disable"
    on="Enable"
    button=""
    body={(isOn) => ({ ...kept(of), status: isOn ? "active" : "disabled" })}
    what="subscription"
    done={of.status === "active" ? "The subscription is disabled" : "The receiver consented"}
    needs={write}
    meaning={[
      <>
        <code>{of.sink}</code> receives nothing until the subscription is enabled again.
      </>,
      <>
        <code>{of.sink}</code> is asked for its consent, and receives events from then on.
      </>
    ]}
  />
)

const Delete = ({ of }: Of<Subscription>) => (
  <ConfirmAct name="eventSubscriptions.delete" of={of} verb="Delete" what="subscription" needs={write}>
    <code>{of.sink}</code> receives nothing more, and waiting events are dropped.
  </ConfirmAct>
)

/** Who receives events by the CloudEvents Subscriptions API. */
export default () => (
  <ListPage
    title="Event subscriptions"
    lead="Receivers of CloudEvents that gave their consent. Every entry of the audit log is an event."
    actions={<Subscribe />}
    name="eventSubscriptions.list"
    searches="Address"
    filters={[useTenantFilter()]}
    empty={[
      "No receiver is subscribed",
      "Programs subscribe themselves at /api/cloudevents/subscriptions, and show here."
    ]}
    columns={[
      { title: "Receiver", cell: ({ sink }) => <Cut text={sink} /> },
      { title: "Status", cell: ({ status }) => <Tag tone={tones[status]}>{status}</Tag> },
      { title: "Types", cell: ({ types }) => (types.length === 0 ? "all" : <Cut text={types.join(", ")} />) },
      { title: "Filters", isNumber: true, cell: ({ filters: conditions }) => conditions.length },
      ...useTenantColumn(),
      { title: "Created", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
    ]}
    acts={[Edit, Disable, Delete]}
  />
)
