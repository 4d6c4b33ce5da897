import { useState } from "react"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Act, Confirm, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, textOf } from "../../kit/forms/form.tsx"
import { Moment } from "../../kit/format.tsx"
import { ScopePicker } from "../../kit/forms/scopes.tsx"
import { TenantField } from "../../kit/names/tenants.tsx"

type Registered = Answer<"registrations.get">

const write = "applications:write"

interface Deciding {
  readonly name: string
  readonly onClose: () => void
  readonly registration: Registered
}

const Approve = ({ name, onClose, registration }: Deciding) => {
  const approve = useChange("registrations.approve", `${name} is approved`)
  const [scopes, setScopes] = useState<ReadonlyArray<string>>(registration.requestedScopes)
  const submit = (data: FormData) => {
    const tenantId = textOf(data, "tenantId")
    approve.mutate(
      { params: { id: registration.id }, body: { scopes, ...(tenantId === undefined ? {} : { tenantId }) } },
      { onSuccess: onClose }
    )
  }
  return (
    <Dialog title={`Approve ${name}`} onClose={onClose} wide>
      <Form
        cause={approve.error}
        onSubmit={submit}
        actions={<FormActions action="Approve" isPending={approve.isPending} onClose={onClose} />}
      >
        <p>It gets an API key with these scopes, which it reads once at its registration URI.</p>
        {registration.apiKeyId === null ? <TenantField /> : null}
        <ScopePicker scopes={scopes} onChange={setScopes} />
      </Form>
    </Dialog>
  )
}

const Chips = ({ texts }: { readonly texts: ReadonlyArray<string> }) =>
  texts.length === 0 ? (
    <span className="soft">none</span>
  ) : (
    <span className="chips">
      {texts.map((text) => (
        <span key={text} className="chip">
          {text}
        </span>
      ))}
    </span>
  )

/** What an application said of itself when it registered, and the decision about it. */
export const Registration = ({ id, name }: { readonly id: number; readonly name: string }) => {
  const { data: registration } = useCall("registrations.get", { params: { id } })
  const [shown, show] = useState<"approve" | "reject">()
  const close = () => show(undefined)
  // Most applications were made by hand, so that none is found.
  if (registration === undefined) return null
  const unless = registration.status === "pending" ? undefined : `It is ${registration.status}`
  return (
    <section className="card">
      <header>
        <h2>Registration</h2>
        <small>
          registered itself <Moment at={registration.createdAt} />
        </small>
      </header>
      <div className="in stack">
        {registration.status === "pending" ? (
          <div className="note">
            <span className="tag warn">waiting</span>
            <span>It may do nothing more before you decide.</span>
          </div>
        ) : null}
        <dl className="facts">
          <dt>Requests</dt>
          <dd>
            <Chips texts={registration.requestedScopes} />
          </dd>
          <dt>May do now</dt>
          <dd>
            <Chips texts={registration.grantedScopes} />
          </dd>
          <dt>Address</dt>
          <dd>{registration.clientUri ?? <span className="soft">none</span>}</dd>
          <dt>Contacts</dt>
          <dd>
            <Chips texts={registration.contacts} />
          </dd>
          <dt>Software</dt>
          <dd>
            {registration.softwareId ?? <span className="soft">not said</span>} {registration.softwareVersion}
          </dd>
        </dl>
        <div className="acts">
          <Act kind="main" needs={write} unless={unless} onClick={() => show("approve")}>
            Approve
          </Act>
          <Act kind="bad" needs={write} unless={unless} onClick={() => show("reject")}>
            Reject
          </Act>
        </div>
      </div>
      {shown === "approve" ? <Approve name={name} registration={registration} onClose={close} /> : null}
      {shown === "reject" ? (
        <Confirm
          name="registrations.reject"
          input={{ params: { id } }}
          title={`Reject ${name}`}
          action="Reject"
          done={`${name} is rejected`}
          onClose={close}
        >
          <p>
            {registration.apiKeyId === null
              ? "The application stays, rejected, and gets no key."
              : "It keeps what it has, and gets no more."}
          </p>
        </Confirm>
      ) : null}
    </section>
  )
}
