import { call } from "../../api/client.ts"
import { Cut, Moment } from "../../kit/format.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { BulkAct, BulkBar } from "../../kit/lists/bulk.tsx"
import { activeFilter } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSelection } from "../../kit/lists/table.tsx"
import { NameLink, Noted } from "../../kit/parts.tsx"
import { DaysField, daysLeft, extend, nameOf, PersonFields, TrialState, type User, write } from "./trials.tsx"

const { Field, Make } = formOf("trialUsers.create")

const Create = () => (
  <Make
    label="Add a trial user"
    title="Add a trial user"
    action="Add the user"
    needs={write}
    leads={({ id }) => `/trial-users/${id}`}
  >
    <p>The trial starts now.</p>
    <PersonFields />
    <Field label="Organization" name="organization" hint="Stored, but not shown anywhere" />
  </Make>
)

/** Ends every session of a trial user. */
const endSessions = async ({ id }: User) => {
  const sessions = await call("sessions.list", { query: { userId: id, active: true } })
  await Promise.all(sessions.map(({ id: session }) => call("sessions.end", { params: { id: session } })))
}

const setActive =
  (isActive: boolean) =>
  ({ id }: User) =>
    call("trialUsers.update", { params: { id }, body: { isActive } })

/** People admitted for a trial. */
export default function TrialUsers() {
  const selection = useSelection<User>()
  const bulk = { selection, nameOf, needs: write }
  return (
    <ListPage
      title="Trial users"
      lead="People who try your product. They do not sign in here."
      actions={<Create />}
      above={
        <BulkBar selection={selection}>
          <BulkAct
            {...bulk}
            title="Extend trials"
            action="Extend"
            each={(user, data) => extend(user, Number(data.get("days")))}
          >
            <DaysField />
            <p className="soft">They are added to the end of each trial; one that is over continues from now.</p>
          </BulkAct>
          <BulkAct {...bulk} title="Activate trial users" action="Activate" each={setActive(true)}>
            <p>They can start sessions again while their trial lasts.</p>
          </BulkAct>
          <BulkAct
            {...bulk}
            button="bad"
            needs="sessions:write"
            label="End sessions"
            title="End sessions"
            action="End their sessions"
            each={endSessions}
          >
            <p>All their sessions end. They can start new ones.</p>
          </BulkAct>
          <BulkAct {...bulk} button="bad" title="Deactivate trial users" action="Deactivate" each={setActive(false)}>
            <p>Their sessions end at once, and they can start none until they are activated again.</p>
          </BulkAct>
        </BulkBar>
      }
      name="trialUsers.list"
      searches="Name, e-mail address or organization"
      filters={[activeFilter]}
      nameOf={nameOf}
      rowClass={({ isActive }) => (isActive ? undefined : "gone")}
      selection={selection}
      empty={["There is no trial user yet", "Add one here, or let your product do it through the API."]}
      columns={[
        {
          title: "Name",
          sort: "lastName",
          cell: (user) => <NameLink name={nameOf(user)} to={`/trial-users/${user.id}`} />
        },
        { title: "E-mail address", sort: "email", cell: ({ email }) => <Cut text={email} /> },
        { title: "State", cell: (user) => <TrialState user={user} /> },
        {
          title: "Ends",
          sort: "trialEndDate",
          cell: ({ trialEndDate }) => (
            <Noted
              value={<Moment at={trialEndDate} style="date" />}
              note={`${daysLeft(trialEndDate)} days left`}
              isBelow
            />
          )
        },
        { title: "Created", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
      ]}
    />
  )
}
