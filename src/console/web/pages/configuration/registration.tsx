import { useCall } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Moment } from "../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../kit/forms/operation.tsx"
import { Chips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { TenantField } from "../../kit/names/tenants.tsx"
import { Card, Facts, orNone, Soft, Tag } from "../../kit/parts.tsx"

const write = "applications:write"
const { Act: DialogAct } = formOf("registrations.approve")

interface Deciding {
  readonly name: string
  readonly registration: Answer<"registrations.get">
}

/** Why it is not decided on. */
const decided = (status: string) => (status === "pending" ? undefined : `It is ${status}`)

const Approve = ({ name, registration }: Deciding) => (
  <DialogAct
    button="main"
    title={`Approve ${name}`}
    action="Approve"
    done={`${name} is approved`}
    wide
    needs={write}
    unless={decided(registration.status)}
    input={{ params: { id: registration.id } }}
  >
    <p>It gets an API key with these scopes, which it can read once at its registration URI.</p>
    {registration.apiKeyId === null ? <TenantField /> : null}
    <ScopePicker initial={registration.requestedScopes} />
  </DialogAct>
)

const Reject = ({ name, registration: { apiKeyId, id, status } }: Deciding) => (
  <ConfirmAct
    name="registrations.reject"
    input={{ params: { id } }}
    verb="Reject"
    what="application"
    called={name}
    action="Reject"
    needs={write}
    unless={decided(status)}
  >
    {apiKeyId === null
      ? "The application stays, rejected, and gets no key."
      : "It keeps its current scopes, and gets no more."}
  </ConfirmAct>
)

/** What an application said of itself when it registered, and the decision about it. */
export const Registration = ({ id, name }: { readonly id: number; readonly name: string }) => {
  const { data: registration } = useCall("registrations.get", { params: { id } })
  // Most applications were made by hand, so that none is found.
  if (registration === undefined) return null
  return (
    <Card
      title="Registration"
      beside={
        <small>
          registered itself <Moment at={registration.createdAt} />
        </small>
      }
    >
      <div className="in stack">
        {registration.status === "pending" ? (
          <div className="note">
            <Tag tone="warn">waiting</Tag>
            <span>It gets no more scopes until you decide.</span>
          </div>
        ) : null}
        <Facts
          facts={[
            ["Requested scopes", <Chips texts={registration.requestedScopes} />],
            ["Granted scopes", <Chips texts={registration.grantedScopes} />],
            ["Address", orNone(registration.clientUri, String)],
            ["Contacts", <Chips texts={registration.contacts} />],
            [
              "Software",
              <>
                {registration.softwareId ?? <Soft>not given</Soft>} {registration.softwareVersion}
              </>
            ]
          ]}
        />
        <div className="acts">
          <Approve name={name} registration={registration} />
          <Reject name={name} registration={registration} />
        </div>
      </div>
    </Card>
  )
}
