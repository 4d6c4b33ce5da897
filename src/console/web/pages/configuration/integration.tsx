import { Link } from "wouter"
import { useChange } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Act, type Of } from "../../kit/actions.tsx"
import { Moment, words } from "../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../kit/forms/operation.tsx"
import { Chips } from "../../kit/forms/scopes.tsx"
import { SigningSecret } from "../../kit/forms/secret.tsx"
import { List } from "../../kit/lists/list.tsx"
import { PrincipalName } from "../../kit/names/names.tsx"
import { TenantName } from "../../kit/names/tenants.tsx"
import { DetailPage, Noted, Tag } from "../../kit/parts.tsx"
import { announce } from "../../kit/toast.tsx"
import { type Integration, IntegrationFields, toneOf } from "./integrations.tsx"

const write = "integrations:write"
const update = formOf("integrations.update")
const rotate = formOf("integrations.rotateSecret")
const replay = formOf("integrations.replay")

const Edit = ({ of }: Of<Integration>) => (
  <update.Change done="Saved" of={of} needs={write}>
    <IntegrationFields types={of.eventTypes} />
    <update.Field label="Status" name="status" />
  </update.Change>
)

const Rotate = ({ of }: Of<Integration>) => (
  <rotate.Act
    label="Rotate secret"
    title={`Rotate the secret of ${of.name}`}
    action="Rotate"
    needs={write}
    input={{ params: { id: of.id } }}
    shows={({ secret }) => <SigningSecret title={`New secret of ${of.name}`} secret={secret} />}
  >
    <p>Until the overlap is over, deliveries carry a signature by each secret.</p>
    <rotate.Field label="Overlap in hours" name="overlapSeconds" unit={3600} defaultValue={24} required />
  </rotate.Act>
)

const Replay = ({ of }: Of<Integration>) => (
  <replay.Act
    label="Replay"
    title={`Send events to ${of.name} again`}
    action="Send again"
    done={({ deliveries }) => `${deliveries} deliveries are under way`}
    needs={write}
    input={{ params: { id: of.id } }}
  >
    <replay.Field label="Since" name="since" required hint="Local time; receivers know repeated events by their id" />
  </replay.Act>
)

const Delete = ({ of }: Of<Integration>) => (
  <ConfirmAct
    name="integrations.delete"
    of={of}
    verb="Delete"
    what="integration"
    needs={write}
    leads={() => "/integrations"}
  >
    Its deliveries are deleted with it, including those that wait. <code>{of.url}</code> receives nothing more.
  </ConfirmAct>
)

const Deliveries = ({ id }: { readonly id: string }) => {
  const retry = useChange("integrations.retry", "The delivery is sent again")
  return (
    <List
      name="integrations.deliveries"
      input={{ params: { id } }}
      filters={[{ key: "status", label: "Status", options: ["pending", "delivered", "failed"] }]}
      everySeconds={5}
      label="Deliveries"
      empty={[
        "Nothing was delivered yet",
        "Deliveries appear with the next event of its types; a test shows whether the receiver answers."
      ]}
      columns={[
        { title: "Type", cell: ({ type }) => <code>{type}</code> },
        { title: "Status", cell: ({ status }) => <Tag tone={toneOf(status)}>{status}</Tag> },
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
        { title: "Next", cell: ({ nextAttemptAt }) => (nextAttemptAt === null ? null : <Moment at={nextAttemptAt} />) }
      ]}
      acts={(delivery) => (
        <Act needs={write} onClick={() => retry.mutate({ params: { id, deliveryId: delivery.id } })}>
          Send again
        </Act>
      )}
    />
  )
}

const announceTest = ({ delivered, error, status }: Answer<"integrations.test">) => {
  const answered = `the receiver answered ${status}`
  announce(delivered ? `Delivered: ${answered}` : `Not delivered: ${error ?? answered}`)
}

const Test = ({ of: { id } }: Of<Integration>) => {
  const test = useChange("integrations.test")
  return (
    <Act needs={write} onClick={() => test.mutate({ params: { id } }, { onSuccess: announceTest })}>
      Test
    </Act>
  )
}

/** One integration, with what was sent to it. */
export default () => (
  <DetailPage
    name="integrations.get"
    entity="Integration"
    what="Integration"
    lead={<Link href="/integrations">Integrations</Link>}
    actions={[Test, Edit, Rotate, Replay, Delete]}
    facts={(of) => [
      ["Status", <Tag tone={toneOf(of.status)}>{of.status}</Tag>],
      ["Kind", words(of.kind)],
      ["Address", <code>{of.url}</code>],
      ["Event types", <Chips texts={of.eventTypes} />],
      ["Tenant", <TenantName id={of.tenantId} none="every tenant, and the installation" />],
      [
        "Created",
        <Noted value={<Moment at={of.createdAt} style="full" />} note={<PrincipalName name={of.createdBy} />} />
      ]
    ]}
  >
    {({ id }) => <Deliveries id={id} />}
  </DetailPage>
)
