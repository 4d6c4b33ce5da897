import { useCall } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Act } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { Confirm, formOf } from "../../kit/forms/operation.tsx"
import { Chips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { TenantField } from "../../kit/names/tenants.tsx"
import { Card, Facts, Soft, Tag } from "../../kit/parts.tsx"

const write = "applications:write"
const { Dialog } = formOf("registrations.approve")

interface Deciding {
  readonly name: string
  readonly registration: Answer<"registrations.get">
}

const Approve = ({ name, registration }: Deciding) => (
  <Dialog
    title={`Approve ${name}`}
    action="Approve"
    done={`${name} is approved`}
    wide
    input={{ params: { id: registration.id } }}
  >
    <p>It gets an API key with these scopes, which it reads once at its registration URI.</p>
    {registration.apiKeyId === null ? <TenantField /> : null}
    <ScopePicker initial={registration.requestedScopes} />
  </Dialog>
)

const Reject = ({ name, registration: { apiKeyId, id } }: Deciding) => (
  <Confirm
    name="registrations.reject"
    input={{ params: { id } }}
    title={`Reject ${name}`}
    action="Reject"
    done={`${name} is rejected`}
  >
    <p>
      {apiKeyId === null
        ? "The application stays, rejected, and gets no key."
        : "It keeps what it has, and gets no more."}
    </p>
  </Confirm>
)

/** What an application said of itself when it registered, and the decision about it. */
export const Registration = ({ id, name }: { readonly id: number; readonly name: string }) => {
  const { data: registration } = useCall("registrations.get", { params: { id } })
  // Most applications were made by hand, so that none is found.
  if (registration === undefined) return null
  const unless = registration.status === "pending" ? undefined : `It is ${registration.status}`
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
            <span>It may do nothing more before you decide.</span>
          </div>
        ) : null}
        <Facts
          facts={[
            ["Requests", <Chips texts={registration.requestedScopes} />],
            ["May do now", <Chips texts={registration.grantedScopes} />],
            ["Address", registration.clientUri ?? <Soft>none</Soft>],
            ["Contacts", <Chips texts={registration.contacts} />],
            [
              "Software",
              <>
                {registration.softwareId ?? <Soft>not said</Soft>} {registration.softwareVersion}
              </>
            ]
          ]}
        />
        <div className="acts">
          <Act kind="main" needs={write} unless={unless} opens={<Approve name={name} registration={registration} />}>
            Approve
          </Act>
          <Act kind="bad" needs={write} unless={unless} opens={<Reject name={name} registration={registration} />}>
            Reject
          </Act>
        </div>
      </div>
    </Card>
  )
}
