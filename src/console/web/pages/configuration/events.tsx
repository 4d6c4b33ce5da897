import { useState } from "react"
import { useChange } from "../../api/hooks.ts"
import { type Row } from "../../api/operations.ts"
import { Act, Confirm, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { CheckField, Form, TextArea, textOf, TextField, textsOf } from "../../kit/forms/form.tsx"
import { SigningSecret } from "../../kit/forms/secret.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { TenantChoice, TenantField, useTenantColumn } from "../../kit/names/tenants.tsx"
import { Empty } from "../../kit/states.tsx"

type Subscription = Row<"eventSubscriptions.list">

const write = "events:write"
const tones = { active: "ok", disabled: "bad", refused: "warn" } as const

/** The subscriber of the CloudEvents Subscriptions API brings the secret, which here is the page. */
const newSecret = () => `whsec_${btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32))))}`

/** Subscribes, or changes a subscription; its filters, how it is sent and its secret stay as they are. */
const Edit = ({
  of,
  onClose,
  onSecret
}: {
  readonly of?: Subscription
  readonly onClose: () => void
  readonly onSecret: (secret: string) => void
}) => {
  const create = useChange("eventSubscriptions.create", "The sink was asked, and is subscribed")
  const update = useChange("eventSubscriptions.update", "The subscription is changed")
  const change = of === undefined ? create : update
  const submit = (data: FormData) => {
    const terms = { sink: textOf(data, "sink") ?? "", types: textsOf(data, "eventTypes") }
    const tenantId = textOf(data, "tenantId")
    if (of === undefined) {
      const secret = data.has("isSigned") ? newSecret() : undefined
      create.mutate(
        {
          body: {
            ...terms,
            ...(tenantId === undefined ? {} : { tenantId }),
            ...(secret === undefined ? {} : { config: { secret } })
          }
        },
        { onSuccess: () => (secret === undefined ? onClose() : onSecret(secret)) }
      )
    } else {
      update.mutate({ params: { id: of.id }, body: { ...kept(of), ...terms } }, { onSuccess: onClose })
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
        {of === undefined ? (
          <>
            <TenantField none="None: of the whole installation" />
            <CheckField
              label="Sign deliveries"
              name="isSigned"
              hint="By Standard Webhooks, with a secret that is shown once"
            />
          </>
        ) : null}
      </Form>
    </Dialog>
  )
}

/** What a change of something else leaves as it is: the operation replaces all, and asks the sinks of others than disabled ones. */
const kept = ({ config, filters, sink, status, types }: Subscription) => ({
  config,
  filters,
  sink,
  types,
  ...(status === "disabled" ? { status } : {})
})

type Shown =
  | { readonly what: "create" }
  | { readonly what: "edit" | "disable" | "enable" | "delete"; readonly of: Subscription }
  | { readonly what: "secret"; readonly secret: string }

/** Who receives events by the CloudEvents Subscriptions API. */
export default function Events() {
  const filters = useFilters(["tenantId"])
  const ofTenant = useTenantColumn()
  const [shown, show] = useState<Shown>()
  const close = () => show(undefined)
  const showSecret = (secret: string) => show({ what: "secret", secret })
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
              {of.status === "active" ? (
                <Act needs={write} onClick={() => show({ what: "disable", of })}>
                  Disable
                </Act>
              ) : (
                <Act needs={write} onClick={() => show({ what: "enable", of })}>
                  Enable
                </Act>
              )}
              <Act kind="bad" needs={write} onClick={() => show({ what: "delete", of })}>
                Delete
              </Act>
            </span>
          )
        }
      ]}
    >
      {shown?.what === "create" ? <Edit onClose={close} onSecret={showSecret} /> : null}
      {shown?.what === "edit" ? <Edit of={shown.of} onClose={close} onSecret={showSecret} /> : null}
      {shown?.what === "secret" ? (
        <SigningSecret title="Secret of the subscription" secret={shown.secret} onClose={close} />
      ) : null}
      {shown?.what === "disable" || shown?.what === "enable" ? (
        <Confirm
          name="eventSubscriptions.update"
          input={{
            params: { id: shown.of.id },
            body: { ...kept(shown.of), status: shown.what === "disable" ? "disabled" : "active" }
          }}
          kind={shown.what === "disable" ? "bad" : "main"}
          title={`${shown.what === "disable" ? "Disable" : "Enable"} the subscription`}
          action={`${shown.what === "disable" ? "Disable" : "Enable"} the subscription`}
          done={shown.what === "disable" ? "The subscription is disabled" : "The sink was asked"}
          onClose={close}
        >
          <p>
            <code>{shown.of.sink}</code>{" "}
            {shown.what === "disable"
              ? "receives nothing until the subscription is enabled again."
              : "is asked for its consent, and receives the events from then on."}
          </p>
        </Confirm>
      ) : null}
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
