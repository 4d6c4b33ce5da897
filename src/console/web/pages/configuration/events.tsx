import { useState } from "react"
import { useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, Confirm, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, TextArea, textOf, TextField, textsOf } from "../../kit/forms/form.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { ListPage, useFilters } from "../../kit/lists/list.tsx"
import { TenantChoice, TenantField, useTenantColumn } from "../../kit/names/tenants.tsx"
import { Empty } from "../../kit/states.tsx"

type Subscription = Row<"eventSubscriptions.list">

const write = "events:write"
const tones = { active: "ok", disabled: "bad", refused: "warn" } as const

/** Subscribes, or changes a subscription; its filters and how it is sent stay as they are. */
const Edit = ({ of, onClose }: { readonly of?: Subscription; readonly onClose: () => void }) => {
  const create = useChange("eventSubscriptions.create", "The sink was asked, and is subscribed")
  const update = useChange("eventSubscriptions.update", "The subscription is changed")
  const change = of === undefined ? create : update
  const submit = (data: FormData) => {
    const terms = { sink: textOf(data, "sink") ?? "", types: textsOf(data, "eventTypes") }
    const tenantId = textOf(data, "tenantId")
    if (of === undefined) {
      create.mutate({ body: { ...terms, ...(tenantId === undefined ? {} : { tenantId }) } }, { onSuccess: onClose })
    } else {
      const { config, filters } = of
      update.mutate({ params: { id: of.id }, body: { ...terms, filters, config } }, { onSuccess: onClose })
    }
  }
  return (
    <Dialog title={of === undefined ? "Subscribe a sink" : "Change the subscription"} onClose={onClose}>
      <Form
        cause={change.error}
        onSubmit={submit}
        actions={
          <FormActions
            action={of === undefined ? "Subscribe" : "Save"}
            isPending={change.isPending}
            onClose={onClose}
          />
        }
      >
        <TextField
          label="Sink"
          name="sink"
          type="url"
          required
          defaultValue={of?.sink}
          hint="Asked with OPTIONS and WebHook-Request-Origin; without its consent nothing is sent"
        />
        <TextArea
          label="Event types"
          name="eventTypes"
          member="types"
          rows={3}
          defaultValue={of?.types.join("\n")}
          hint={
            <>
              One a line, all when empty; a prefix may end in <code>*</code>
            </>
          }
        />
        {of === undefined ? <TenantField none="None: of the whole installation" /> : null}
      </Form>
    </Dialog>
  )
}

type Shown = { readonly what: "create" } | { readonly what: "edit" | "delete"; readonly of: Subscription }

/** Who receives events by the CloudEvents Subscriptions API. */
export default function Events() {
  const filters = useFilters(["tenantId"])
  const ofTenant = useTenantColumn()
  const [shown, show] = useState<Shown>()
  const close = () => show(undefined)
  return (
    <ListPage
      title="Event subscriptions"
      lead="Receivers of CloudEvents that have consented. Every entry of the audit log is an event."
      actions={
        <Act kind="main" icon="plus" needs={write} onClick={() => show({ what: "create" })}>
          Subscribe a sink
        </Act>
      }
      name="eventSubscriptions.list"
      searches="Address"
      input={{ query: filters.values }}
      filters={<TenantChoice value={filters.values.tenantId} onChange={(id) => filters.set("tenantId", id)} />}
      isFiltered={filters.isFiltered}
      label="Event subscriptions"
      keyOf={({ id }) => id}
      empty={
        <Empty title="No sink is subscribed">
          <p>Programs subscribe themselves at /api/cloudevents/subscriptions, and show here.</p>
        </Empty>
      }
      columns={[
        { title: "Sink", cell: ({ sink }) => <Cut text={sink} /> },
        { title: "Status", cell: ({ status }) => <span className={`tag ${tones[status]}`}>{status}</span> },
        { title: "Types", cell: ({ types }) => (types.length === 0 ? "all" : <Cut text={types.join(", ")} />) },
        { title: "Filters", isNumber: true, cell: ({ filters: conditions }) => conditions.length },
        ...ofTenant,
        { title: "Made", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> },
        {
          title: "",
          isNumber: true,
          cell: (of) => (
            <span className="acts">
              <Act needs={write} onClick={() => show({ what: "edit", of })}>
                Change
              </Act>
              <Act kind="bad" needs={write} onClick={() => show({ what: "delete", of })}>
                Delete
              </Act>
            </span>
          )
        }
      ]}
    >
      {shown?.what === "create" ? <Edit onClose={close} /> : null}
      {shown?.what === "edit" ? <Edit of={shown.of} onClose={close} /> : null}
      {shown?.what === "delete" ? (
        <Confirm
          name="eventSubscriptions.delete"
          input={{ params: { id: shown.of.id } }}
          title="Delete the subscription"
          action="Delete the subscription"
          done="The subscription is deleted"
          onClose={close}
        >
          <p>
            <code>{shown.of.sink}</code> receives nothing more, nor what waits for it.
          </p>
        </Confirm>
      ) : null}
    </ListPage>
  )
}
