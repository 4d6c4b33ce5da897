import { Link, useLocation } from "wouter"
import { useChange } from "../../api/hooks.ts"
import { Act } from "../../kit/actions.tsx"
import { useDialogs } from "../../kit/dialog.tsx"
import { Moment, words } from "../../kit/format.tsx"
import { Confirm, formOf } from "../../kit/forms/operation.tsx"
import { Chips } from "../../kit/forms/scopes.tsx"
import { SigningSecret } from "../../kit/forms/secret.tsx"
import { List } from "../../kit/lists/list.tsx"
import { DetailPage, Facts, Tag } from "../../kit/parts.tsx"
import { announce } from "../../kit/toast.tsx"
import { type Integration, IntegrationFields, toneOf } from "./integrations.tsx"

const write = "integrations:write"
const update = formOf("integrations.update")
const rotate = formOf("integrations.rotateSecret")
const replay = formOf("integrations.replay")

interface About {
  readonly of: Integration
}

const Edit = ({ of }: About) => (
  <update.Dialog title={`Change ${of.name}`} action="Save" done="Saved" input={{ params: { id: of.id } }} of={of}>
    <IntegrationFields />
    <update.Field label="Status" name="status" />
  </update.Dialog>
)

const Rotate = ({ of }: About) => {
  const { open } = useDialogs()
  return (
    <rotate.Dialog
      title={`Rotate the secret of ${of.name}`}
      action="Rotate"
      input={{ params: { id: of.id } }}
      onDone={({ secret }) => open(<SigningSecret title={`New secret of ${of.name}`} secret={secret} />)}
    >
      <p>Until the overlap is over, deliveries carry a signature by each secret.</p>
      <rotate.Field label="Overlap in hours" name="overlapSeconds" unit={3600} defaultValue={24} required />
    </rotate.Dialog>
  )
}

const Replay = ({ of }: About) => (
  <replay.Dialog
    title={`Send events to ${of.name} again`}
    action="Send again"
    done={({ deliveries }) => `${deliveries} deliveries are under way`}
    input={{ params: { id: of.id } }}
  >
    <replay.Field label="Since" name="since" required hint="Local time; receivers know repeated events by their id" />
  </replay.Dialog>
)

const Delete = ({ of }: About) => {
  const [, go] = useLocation()
  return (
    <Confirm
      name="integrations.delete"
      input={{ params: { id: of.id } }}
      title={`Delete ${of.name}`}
      action="Delete the integration"
      done={`${of.name} is deleted`}
      onDone={() => go("/integrations")}
    >
      <p>
        Its deliveries are deleted with it, also those that wait. <code>{of.url}</code> receives nothing more.
      </p>
    </Confirm>
  )
}

const Deliveries = ({ id }: { readonly id: string }) => {
  const retry = useChange("integrations.retry", "The delivery is tried again")
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
        {
          title: "Next",
          cell: ({ nextAttemptAt }) => (nextAttemptAt === null ? null : <Moment at={nextAttemptAt} />)
        }
      ]}
      acts={(delivery) => (
        <Act needs={write} onClick={() => retry.mutate({ params: { id, deliveryId: delivery.id } })}>
          Send again
        </Act>
      )}
    />
  )
}

const Test = ({ id }: { readonly id: string }) => {
  const test = useChange("integrations.test")
  const send = () =>
    test.mutate(
      { params: { id } },
      {
        onSuccess: ({ delivered, error, status }) => {
          const answered = `the receiver answered ${status}`
          announce(delivered ? `Delivered: ${answered}` : `Not delivered: ${error ?? answered}`)
        }
      }
    )
  return (
    <Act needs={write} onClick={send}>
      Test
    </Act>
  )
}

const Acts = ({ of }: About) => (
  <>
    <Test id={of.id} />
    <Act needs={write} opens={<Edit of={of} />}>
      Change
    </Act>
    <Act needs={write} opens={<Rotate of={of} />}>
      Rotate secret
    </Act>
    <Act needs={write} opens={<Replay of={of} />}>
      Replay
    </Act>
    <Act kind="bad" needs={write} opens={<Delete of={of} />}>
      Delete
    </Act>
  </>
)

/** One integration, with what was sent to it. */
export default function IntegrationPage() {
  return (
    <DetailPage
      name="integrations.get"
      what="Integration"
      title={({ name }) => name}
      lead={<Link href="/integrations">Integrations</Link>}
      actions={(of) => <Acts of={of} />}
    >
      {(of) => (
        <>
          <section className="card">
            <div className="in">
              <Facts
                facts={[
                  ["Status", <Tag tone={toneOf(of.status)}>{of.status}</Tag>],
                  ["Kind", words(of.kind)],
                  ["Address", <code>{of.url}</code>],
                  ["Event types", <Chips texts={of.eventTypes} />],
                  ["Tenant", of.tenantId ?? "every tenant, and the installation"],
                  [
                    "Made",
                    <>
                      <Moment at={of.createdAt} style="full" /> <small>{of.createdBy}</small>
                    </>
                  ]
                ]}
              />
            </div>
          </section>
          <Deliveries id={of.id} />
        </>
      )}
    </DetailPage>
  )
}
