import { type Row } from "../../api/operations.ts"
import { Cut, Moment } from "../../kit/format.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { SigningSecret } from "../../kit/forms/secret.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { NameLink, Noted, Tag } from "../../kit/parts.tsx"
import { EventTypePicker } from "./event-types.tsx"

export type Integration = Row<"integrations.list">

const create = formOf("integrations.create")

/** What a receiver of events is asked for. */
export const IntegrationFields = ({ types }: { readonly types?: ReadonlyArray<string> }) => (
  <>
    <create.Field label="Name" name="name" />
    <create.Field label="Address" name="url" hint="https, of the public internet" />
    <EventTypePicker label="Event types" name="eventTypes" every={["*"]} initial={types} />
  </>
)

const Create = () => (
  <create.Make
    title="Create an integration"
    action="Create the integration"
    needs="integrations:write"
    shows={({ name, secret }) => <SigningSecret title={`Secret of ${name}`} secret={secret} />}
  >
    <create.Field
      label="Kind"
      name="kind"
      options={{
        webhook: "Webhook: Standard Webhooks, signed",
        slack: "Slack: a message in a channel",
        cloudevents: "CloudEvents: the structured mode, signed"
      }}
    />
    <IntegrationFields />
  </create.Make>
)

export const toneOf = (status: string) =>
  status === "active" || status === "delivered" ? "ok" : status === "disabled" || status === "failed" ? "bad" : "warn"

/** Where events are sent. */
export default () => (
  <ListPage
    title="Integrations"
    lead="Where events are sent as they happen: webhooks, Slack, receivers of CloudEvents."
    actions={<Create />}
    name="integrations.list"
    searches="Name or address"
    empty={["There is no integration yet", "An integration sends the events that you choose to another system."]}
    columns={[
      {
        title: "Name",
        sort: "name",
        cell: ({ id, kind, name }) => (
          <Noted isBelow value={<NameLink name={name} to={`/integrations/${id}`} />} note={kind} />
        )
      },
      { title: "Status", cell: ({ status }) => <Tag tone={toneOf(status)}>{status}</Tag> },
      { title: "Address", cell: ({ url }) => <Cut text={url} /> },
      {
        title: "Types",
        cell: ({ eventTypes }) => (
          <Cut
            text={eventTypes.length === 1 ? eventTypes[0] : `${eventTypes.length} types`}
            title={eventTypes.join("\n")}
          />
        )
      },
      { title: "Created", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
    ]}
  />
)
