import { useState } from "react"
import { Link, useLocation } from "wouter"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, Confirm, CopyCurl, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, instantOf, numberOf, SelectField, TextArea, textOf, TextField, textsOf } from "../../kit/forms/form.tsx"
import { Cut, Moment, words } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { List, ListPage } from "../../kit/lists/list.tsx"
import { SigningSecret } from "../../kit/forms/secret.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { announce } from "../../kit/toast.tsx"
import { Page } from "../../kit/page.tsx"

type Integration = Row<"integrations.list">

const kinds = [
  ["webhook", "Webhook: Standard Webhooks, signed"],
  ["slack", "Slack: a message in a channel"],
  ["cloudevents", "CloudEvents: the structured mode, signed"]
] as const

const Fields = ({ of }: { readonly of?: Integration }) => (
  <>
    <TextField label="Name" name="name" required maxLength={200} defaultValue={of?.name} />
    <TextField
      label="Address"
      name="url"
      type="url"
      required
      defaultValue={of?.url}
      hint="https, of the public internet"
    />
    <TextArea
      label="Event types"
      name="eventTypes"
      required
      rows={3}
      defaultValue={of?.eventTypes.join("\n") ?? "*"}
      hint={
        <>
          One a line; a prefix may end in <code>*</code>, as <code>com.application-manager.trial-user.*</code>
        </>
      }
    />
  </>
)

const Create = ({
  onClose,
  onMade
}: {
  readonly onClose: () => void
  readonly onMade: (made: Answer<"integrations.create">) => void
}) => {
  const create = useChange("integrations.create")
  return (
    <Dialog title="Make an integration" onClose={onClose}>
      <Form
        cause={create.error}
        actions={<FormActions action="Make it" isPending={create.isPending} onClose={onClose} />}
        onSubmit={(data) => {
          const kind = kinds.find(([value]) => value === data.get("kind"))?.[0] ?? "webhook"
          create.mutate(
            {
              body: {
                kind,
                name: textOf(data, "name") ?? "",
                url: textOf(data, "url") ?? "",
                eventTypes: textsOf(data, "eventTypes")
              }
            },
            { onSuccess: onMade }
          )
        }}
      >
        <SelectField label="Kind" name="kind" options={kinds} />
        <Fields />
      </Form>
    </Dialog>
  )
}

const tone = (status: string) =>
  status === "active" || status === "delivered" ? "ok" : status === "disabled" || status === "failed" ? "bad" : "warn"

/** Where events are sent. */
export default function Integrations() {
  const [isCreating, setCreating] = useState(false)
  const [made, setMade] = useState<Answer<"integrations.create">>()
  return (
    <ListPage
      title="Integrations"
      lead="Where events are sent as they happen: webhooks, Slack, receivers of CloudEvents."
      actions={
        <Act kind="main" icon="plus" needs="integrations:write" onClick={() => setCreating(true)}>
          Make an integration
        </Act>
      }
      name="integrations.list"
      searches="Name or address"
      input={{}}
      label="Integrations"
      keyOf={({ id }) => id}
      empty={
        <Empty title="Nothing is sent anywhere yet">
          <p>An integration tells another system of every change that it asks for.</p>
        </Empty>
      }
      columns={[
        {
          title: "Name",
          sort: "name",
          cell: ({ id, name }) => (
            <Link className="name" href={`/integrations/${id}`} title={name}>
              {name}
            </Link>
          )
        },
        { title: "Kind", cell: ({ kind }) => kind },
        { title: "Status", cell: ({ status }) => <span className={`tag ${tone(status)}`}>{status}</span> },
        { title: "Address", cell: ({ url }) => <Cut text={url} /> },
        {
          title: "Types",
          cell: ({ eventTypes }) => (
            <span className="cut" title={eventTypes.join("\n")}>
              {eventTypes.length === 1 ? eventTypes[0] : `${eventTypes.length} types`}
            </span>
          )
        },
        { title: "Made", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
      ]}
    >
      {isCreating ? (
        <Create
          onClose={() => setCreating(false)}
          onMade={(integration) => {
            setCreating(false)
            setMade(integration)
          }}
        />
      ) : null}
      {made === undefined ? null : (
        <SigningSecret title={`Secret of ${made.name}`} secret={made.secret} onClose={() => setMade(undefined)} />
      )}
    </ListPage>
  )
}

type Shown = "edit" | "delete" | "rotate" | "replay" | undefined

const Dialogs = ({
  of,
  onClose,
  shown
}: {
  readonly of: Integration
  readonly onClose: () => void
  readonly shown: Shown
}) => {
  const [, go] = useLocation()
  const update = useChange("integrations.update", "Saved")
  const rotate = useChange("integrations.rotateSecret")
  const replay = useChange("integrations.replay")
  const params = { id: of.id }
  if (rotate.data !== undefined) {
    return (
      <SigningSecret
        title={`New secret of ${of.name}`}
        secret={rotate.data.secret}
        onClose={() => (rotate.reset(), onClose())}
      />
    )
  }
  if (shown === "edit") {
    return (
      <Dialog title={`Change ${of.name}`} onClose={onClose}>
        <Form
          cause={update.error}
          actions={<FormActions action="Save" isPending={update.isPending} onClose={onClose} />}
          onSubmit={(data) =>
            update.mutate(
              {
                params,
                body: {
                  name: textOf(data, "name") ?? "",
                  url: textOf(data, "url") ?? "",
                  eventTypes: textsOf(data, "eventTypes"),
                  status: data.get("status") === "disabled" ? "disabled" : "active"
                }
              },
              { onSuccess: onClose }
            )
          }
        >
          <Fields of={of} />
          <SelectField
            label="Status"
            name="status"
            defaultValue={of.status}
            options={[
              ["active", "active"],
              ["disabled", "disabled"]
            ]}
          />
        </Form>
      </Dialog>
    )
  }
  if (shown === "rotate") {
    return (
      <Dialog title={`Rotate the secret of ${of.name}`} onClose={onClose}>
        <Form
          cause={rotate.error}
          actions={<FormActions action="Rotate" isPending={rotate.isPending} onClose={onClose} />}
          onSubmit={(data) =>
            rotate.mutate({ params, body: { overlapSeconds: (numberOf(data, "hours") ?? 24) * 3600 } })
          }
        >
          <p>Until the overlap is over, deliveries carry a signature by each secret.</p>
          <TextField
            label="Overlap in hours"
            member="overlapSeconds"
            name="hours"
            type="number"
            min={0}
            max={168}
            defaultValue={24}
            required
          />
        </Form>
      </Dialog>
    )
  }
  if (shown === "replay") {
    return (
      <Dialog title={`Send events to ${of.name} again`} onClose={onClose}>
        <Form
          cause={replay.error}
          actions={<FormActions action="Send again" isPending={replay.isPending} onClose={onClose} />}
          onSubmit={(data) =>
            replay.mutate(
              { params, body: { since: instantOf(data, "since") ?? "" } },
              {
                onSuccess: ({ deliveries }) => {
                  announce(`${deliveries} deliveries are under way`)
                  onClose()
                }
              }
            )
          }
        >
          <TextField
            label="Since"
            name="since"
            type="datetime-local"
            required
            hint="Local time; receivers know repeated events by their id"
          />
        </Form>
      </Dialog>
    )
  }
  return shown === "delete" ? (
    <Confirm
      name="integrations.delete"
      input={{ params }}
      title={`Delete ${of.name}`}
      action="Delete the integration"
      done={`${of.name} is deleted`}
      onClose={() => {
        onClose()
        go("/integrations")
      }}
    >
      <p>
        Its deliveries are deleted with it, also those that wait. <code>{of.url}</code> receives nothing more.
      </p>
    </Confirm>
  ) : null
}

const Deliveries = ({ id }: { readonly id: string }) => {
  const { isFiltered, set, values } = useFilters(["status"] as const)
  const retry = useChange("integrations.retry", "The delivery is tried again")
  return (
    <>
      <div className="filters">
        <Choice
          label="Status"
          value={values.status}
          onChange={(value) => set("status", value)}
          options={["pending", "delivered", "failed"]}
        />
      </div>
      <List
        name="integrations.deliveries"
        input={{ params: { id }, query: values }}
        isFiltered={isFiltered}
        everySeconds={5}
        label="Deliveries"
        keyOf={({ id }) => id}
        empty={
          <Empty title="Nothing was delivered yet">
            <p>Deliveries appear with the next event of its types; a test shows whether the receiver answers.</p>
          </Empty>
        }
        columns={[
          { title: "Type", cell: ({ type }) => <code>{type}</code> },
          { title: "Status", cell: ({ status }) => <span className={`tag ${tone(status)}`}>{status}</span> },
          {
            title: "Attempts",
            cell: ({ attempts }) => {
              const last = attempts.at(-1)
              return last === undefined ? (
                "none yet"
              ) : (
                <span title={last.error ?? undefined}>
                  {attempts.length}, last <Moment at={last.at} /> <small>{last.status ?? last.error}</small>
                </span>
              )
            }
          },
          {
            title: "Next",
            cell: ({ nextAttemptAt }) => (nextAttemptAt === null ? null : <Moment at={nextAttemptAt} />)
          },
          {
            title: "",
            isNumber: true,
            cell: (delivery) => (
              <Act needs="integrations:write" onClick={() => retry.mutate({ params: { id, deliveryId: delivery.id } })}>
                Send again
              </Act>
            )
          }
        ]}
      />
    </>
  )
}

/** One integration, with what was sent to it. */
export const IntegrationPage = () => {
  const [path] = useLocation()
  const id = path.split("/").at(-1) ?? ""
  const asked = useCall("integrations.get", { params: { id } })
  const test = useChange("integrations.test")
  const [shown, setShown] = useState<Shown>()
  const act = (title: string, what: Shown, kind: "" | "bad" = "") => (
    <Act kind={kind} needs="integrations:write" onClick={() => setShown(what)}>
      {title}
    </Act>
  )
  return (
    <Page
      title={asked.data?.name ?? "Integration"}
      lead={<Link href="/integrations">Integrations</Link>}
      actions={
        <>
          <CopyCurl name="integrations.get" input={{ params: { id } }} />
          <Act
            needs="integrations:write"
            onClick={() =>
              test.mutate(
                { params: { id } },
                {
                  onSuccess: ({ delivered, error, status }) =>
                    announce(
                      delivered
                        ? `Delivered: the receiver answered ${status}`
                        : `Not delivered: ${error ?? `the receiver answered ${status}`}`
                    )
                }
              )
            }
          >
            Test
          </Act>
          {act("Change", "edit")}
          {act("Rotate secret", "rotate")}
          {act("Replay", "replay")}
          {act("Delete", "delete", "bad")}
        </>
      }
    >
      <Answered asked={asked}>
        {(integration) => (
          <>
            <section className="card">
              <div className="in">
                <dl className="facts">
                  <dt>Status</dt>
                  <dd>
                    <span className={`tag ${tone(integration.status)}`}>{integration.status}</span>
                  </dd>
                  <dt>Kind</dt>
                  <dd>{words(integration.kind)}</dd>
                  <dt>Address</dt>
                  <dd>
                    <code>{integration.url}</code>
                  </dd>
                  <dt>Event types</dt>
                  <dd className="chips">
                    {integration.eventTypes.map((type) => (
                      <span key={type} className="chip">
                        {type}
                      </span>
                    ))}
                  </dd>
                  <dt>Tenant</dt>
                  <dd>{integration.tenantId ?? "every tenant, and the installation"}</dd>
                  <dt>Made</dt>
                  <dd>
                    <Moment at={integration.createdAt} style="full" /> <small>{integration.createdBy}</small>
                  </dd>
                </dl>
              </div>
            </section>
            <Deliveries id={id} />
            <Dialogs of={integration} shown={shown} onClose={() => setShown(undefined)} />
          </>
        )}
      </Answered>
    </Page>
  )
}
