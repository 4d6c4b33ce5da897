import { Act, type Of } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { AskDialog } from "../../kit/forms/ask.tsx"
import { ConfirmAct, formOf, SwitchAct } from "../../kit/forms/operation.tsx"
import { DetailPage } from "../../kit/parts.tsx"
import { useCan } from "../../shell/session.tsx"
import { Sessions } from "./sessions.tsx"
import { DaysField, daysLeft, extend, nameOf, PersonFields, TrialState, type User, write } from "./trials.tsx"

const { Change } = formOf("trialUsers.update")

const Edit = ({ of: user }: Of<User>) => (
  <Change title={`Change ${nameOf(user)}`} done={`${nameOf(user)} is changed`} of={user} needs={write}>
    <PersonFields />
  </Change>
)

const Extend = ({ of: user }: Of<User>) => {
  const dialog = (
    <AskDialog
      title={`Extend the trial of ${nameOf(user)}`}
      action="Extend"
      done="The trial is extended"
      submit={(form) => extend(user, Number(new FormData(form).get("days")))}
    >
      <p>
        It ends <Moment at={user.trialEndDate} style="full" />. A trial that is over continues from now.
      </p>
      <DaysField />
    </AskDialog>
  )
  return (
    <Act needs={write} opens={dialog}>
      Extend
    </Act>
  )
}

const Deactivate = ({ of: user }: Of<User>) => (
  <SwitchAct
    name="trialUsers.update"
    of={user}
    isOn={user.isActive}
    off="Deactivate"
    body={(isActive) => ({ isActive })}
    what="user"
    called={nameOf(user)}
    action={user.isActive ? "Deactivate" : "Activate"}
    needs={write}
    meaning={[
      `Every session of ${nameOf(user)} ends at once, and no new one can be started until the user is activated again.`,
      `${user.firstName} can start sessions again while the trial lasts.`
    ]}
  />
)

const Delete = ({ of: user }: Of<User>) => (
  <ConfirmAct
    name="trialUsers.delete"
    of={user}
    verb="Delete"
    what="trial user"
    called={nameOf(user)}
    needs={write}
    leads={() => "/trial-users"}
  >
    {nameOf(user)} and the trial are gone for good, and every session ends. <code>{user.email}</code> can be added
    again.
  </ConfirmAct>
)

/** One trial user: the state of the trial, and the sessions. */
export default function TrialUserPage() {
  const may = useCan()
  return (
    <DetailPage
      name="trialUsers.get"
      entity="TrialUser"
      what="Trial user"
      title={nameOf}
      lead={({ email }) => email}
      actions={[Edit, Extend, Deactivate, Delete]}
      facts={(user) => [
        ["State", <TrialState user={user} />],
        ["Days left", daysLeft(user.trialEndDate)],
        [
          "Trial",
          <>
            <Moment at={user.trialStartDate} style="full" /> to <Moment at={user.trialEndDate} style="full" />
          </>
        ],
        ["E-mail address verified", user.emailVerified ? "yes" : "no"],
        ["Created", <Moment at={user.createdAt} style="full" />]
      ]}
    >
      {(user) => (may("sessions:read") ? <Sessions userId={user.id} /> : null)}
    </DetailPage>
  )
}
