import { useMutation, useQueryClient } from "@tanstack/react-query"
import { useState } from "react"
import { useLocation, useParams } from "wouter"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Act, Confirm, CopyCurl, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, numberOf, textOf, TextField } from "../../kit/forms/form.tsx"
import { Moment } from "../../kit/format.tsx"
import { Answered } from "../../kit/states.tsx"
import { announce } from "../../kit/toast.tsx"
import { daysLeft, extend, TrialState } from "./trials.tsx"
import { useCan } from "../../shell/session.tsx"
import { Page } from "../../kit/page.tsx"
import { Sessions } from "./sessions.tsx"

type User = Answer<"trialUsers.get">

const write = "trial-users:write"

interface Changing {
  readonly user: User
  readonly onClose: () => void
}

const Edit = ({ onClose, user }: Changing) => {
  const update = useChange("trialUsers.update", `${user.firstName} ${user.lastName} is changed`)
  return (
    <Dialog title={`Change ${user.firstName} ${user.lastName}`} onClose={onClose}>
      <Form
        cause={update.error}
        onSubmit={(data) =>
          update.mutate(
            {
              params: { id: user.id },
              body: {
                firstName: textOf(data, "firstName") ?? "",
                lastName: textOf(data, "lastName") ?? "",
                email: textOf(data, "email") ?? ""
              }
            },
            { onSuccess: onClose }
          )
        }
        actions={<FormActions action="Save" isPending={update.isPending} onClose={onClose} />}
      >
        <div className="row2">
          <TextField label="First name" name="firstName" required maxLength={100} defaultValue={user.firstName} />
          <TextField label="Last name" name="lastName" required maxLength={100} defaultValue={user.lastName} />
        </div>
        <TextField label="E-mail address" name="email" type="email" required defaultValue={user.email} />
      </Form>
    </Dialog>
  )
}

const Extend = ({ onClose, user }: Changing) => {
  const client = useQueryClient()
  const change = useMutation({
    mutationFn: (days: number) => extend(user, days),
    onSuccess: () => {
      announce("The trial is extended")
      onClose()
      return client.invalidateQueries()
    }
  })
  return (
    <Dialog title={`Extend the trial of ${user.firstName} ${user.lastName}`} onClose={onClose}>
      <Form
        cause={change.error}
        onSubmit={(data) => change.mutate(numberOf(data, "days") ?? 7)}
        actions={<FormActions action="Extend" isPending={change.isPending} onClose={onClose} />}
      >
        <p>
          It ends <Moment at={user.trialEndDate} style="full" />. A trial that is over goes on from now.
        </p>
        <TextField label="Days" name="days" type="number" min={1} max={3650} defaultValue={7} required />
      </Form>
    </Dialog>
  )
}

/** One trial user: the state of the trial, and the sessions. */
export default function TrialUserPage() {
  const { id = "" } = useParams()
  const [, go] = useLocation()
  const may = useCan()
  const asked = useCall("trialUsers.get", { params: { id } })
  const [shown, show] = useState<"edit" | "extend" | "activate" | "deactivate" | "delete">()
  const close = () => show(undefined)
  return (
    <Answered asked={asked} rows={8}>
      {(user) => {
        const name = `${user.firstName} ${user.lastName}`
        const params = { id: user.id }
        return (
          <Page
            title={name}
            lead={user.email}
            actions={
              <>
                <CopyCurl name="trialUsers.get" input={{ params }} />
                <Act needs={write} onClick={() => show("edit")}>
                  Change
                </Act>
                <Act needs={write} onClick={() => show("extend")}>
                  Extend
                </Act>
                {user.isActive ? (
                  <Act kind="bad" needs={write} onClick={() => show("deactivate")}>
                    Deactivate
                  </Act>
                ) : (
                  <Act needs={write} onClick={() => show("activate")}>
                    Activate
                  </Act>
                )}
                <Act kind="bad" needs={write} onClick={() => show("delete")}>
                  Delete
                </Act>
              </>
            }
          >
            <section className="card">
              <dl className="facts in">
                <dt>State</dt>
                <dd>
                  <TrialState user={user} />
                </dd>
                <dt>Days left</dt>
                <dd>{daysLeft(user.trialEndDate)}</dd>
                <dt>Trial</dt>
                <dd>
                  <Moment at={user.trialStartDate} style="full" /> to <Moment at={user.trialEndDate} style="full" />
                </dd>
                <dt>E-mail address verified</dt>
                <dd>{user.emailVerified ? "yes" : "no"}</dd>
                <dt>Admitted</dt>
                <dd>
                  <Moment at={user.createdAt} style="full" />
                </dd>
              </dl>
            </section>
            {may("sessions:read") ? <Sessions userId={user.id} /> : null}
            {shown === "edit" ? <Edit user={user} onClose={close} /> : null}
            {shown === "extend" ? <Extend user={user} onClose={close} /> : null}
            {shown === "activate" ? (
              <Confirm
                name="trialUsers.update"
                input={{ params, body: { isActive: true } }}
                title={`Activate ${name}`}
                action="Activate"
                kind="main"
                done={`${name} is active`}
                onClose={close}
              >
                <p>{user.firstName} can open sessions again while the trial lasts.</p>
              </Confirm>
            ) : null}
            {shown === "deactivate" ? (
              <Confirm
                name="trialUsers.update"
                input={{ params, body: { isActive: false } }}
                title={`Deactivate ${name}`}
                action="Deactivate"
                done={`${name} is inactive`}
                onClose={close}
              >
                <p>Every session of {name} ends at once, and no new one is opened until the user is activated again.</p>
              </Confirm>
            ) : null}
            {shown === "delete" ? (
              <Confirm
                name="trialUsers.delete"
                input={{ params }}
                title={`Delete ${name}`}
                action="Delete the trial user"
                done={`${name} is deleted`}
                onClose={close}
                onDone={() => go("/trial-users")}
              >
                <p>
                  {name} and the trial are gone for good, and every session ends. <code>{user.email}</code> can be
                  admitted again.
                </p>
              </Confirm>
            ) : null}
          </Page>
        )
      }}
    </Answered>
  )
}
