import { useLocation } from "wouter"
import { Act } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { AskDialog } from "../../kit/forms/ask.tsx"
import { Confirm, formOf } from "../../kit/forms/operation.tsx"
import { DetailPage, Facts } from "../../kit/parts.tsx"
import { useCan } from "../../shell/session.tsx"
import { Sessions } from "./sessions.tsx"
import { DaysField, daysLeft, extend, nameOf, PersonFields, TrialState, type User, write } from "./trials.tsx"

const { Dialog } = formOf("trialUsers.update")

interface About {
  readonly user: User
}

const Edit = ({ user }: About) => (
  <Dialog
    title={`Change ${nameOf(user)}`}
    action="Save"
    done={`${nameOf(user)} is changed`}
    input={{ params: { id: user.id } }}
    of={user}
  >
    <PersonFields />
  </Dialog>
)

const Extend = ({ user }: About) => (
  <AskDialog
    title={`Extend the trial of ${nameOf(user)}`}
    action="Extend"
    done="The trial is extended"
    submit={(form) => extend(user, Number(new FormData(form).get("days")))}
  >
    <p>
      It ends <Moment at={user.trialEndDate} style="full" />. A trial that is over goes on from now.
    </p>
    <DaysField />
  </AskDialog>
)

const Activate = ({ user }: About) => (
  <Confirm
    name="trialUsers.update"
    input={{ params: { id: user.id }, body: { isActive: true } }}
    title={`Activate ${nameOf(user)}`}
    action="Activate"
    kind="main"
    done={`${nameOf(user)} is active`}
  >
    <p>{user.firstName} can open sessions again while the trial lasts.</p>
  </Confirm>
)

const Deactivate = ({ user }: About) => (
  <Confirm
    name="trialUsers.update"
    input={{ params: { id: user.id }, body: { isActive: false } }}
    title={`Deactivate ${nameOf(user)}`}
    action="Deactivate"
    done={`${nameOf(user)} is inactive`}
  >
    <p>Every session of {nameOf(user)} ends at once, and no new one is opened until the user is activated again.</p>
  </Confirm>
)

const Delete = ({ user }: About) => {
  const [, go] = useLocation()
  return (
    <Confirm
      name="trialUsers.delete"
      input={{ params: { id: user.id } }}
      title={`Delete ${nameOf(user)}`}
      action="Delete the trial user"
      done={`${nameOf(user)} is deleted`}
      onDone={() => go("/trial-users")}
    >
      <p>
        {nameOf(user)} and the trial are gone for good, and every session ends. <code>{user.email}</code> can be
        admitted again.
      </p>
    </Confirm>
  )
}

/** One trial user: the state of the trial, and the sessions. */
export default function TrialUserPage() {
  const may = useCan()
  return (
    <DetailPage
      name="trialUsers.get"
      what="Trial user"
      title={nameOf}
      lead={({ email }) => email}
      actions={(user) => (
        <>
          <Act needs={write} opens={<Edit user={user} />}>
            Change
          </Act>
          <Act needs={write} opens={<Extend user={user} />}>
            Extend
          </Act>
          {user.isActive ? (
            <Act kind="bad" needs={write} opens={<Deactivate user={user} />}>
              Deactivate
            </Act>
          ) : (
            <Act needs={write} opens={<Activate user={user} />}>
              Activate
            </Act>
          )}
          <Act kind="bad" needs={write} opens={<Delete user={user} />}>
            Delete
          </Act>
        </>
      )}
    >
      {(user) => (
        <>
          <section className="card">
            <Facts
              className="facts in"
              facts={[
                ["State", <TrialState user={user} />],
                ["Days left", daysLeft(user.trialEndDate)],
                [
                  "Trial",
                  <>
                    <Moment at={user.trialStartDate} style="full" /> to <Moment at={user.trialEndDate} style="full" />
                  </>
                ],
                ["E-mail address verified", user.emailVerified ? "yes" : "no"],
                ["Admitted", <Moment at={user.createdAt} style="full" />]
              ]}
            />
          </section>
          {may("sessions:read") ? <Sessions userId={user.id} /> : null}
        </>
      )}
    </DetailPage>
  )
}
