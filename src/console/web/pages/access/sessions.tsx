import { call } from "../../api/client.ts"
import { type Row } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { ConfirmAct } from "../../kit/forms/operation.tsx"
import { BulkAct, BulkBar } from "../../kit/lists/bulk.tsx"
import { activeFilter } from "../../kit/lists/filters.tsx"
import { List, type Listed, ListPage } from "../../kit/lists/list.tsx"
import { useSelection } from "../../kit/lists/table.tsx"
import { TrialUserName } from "../../kit/names/names.tsx"
import { Tag } from "../../kit/parts.tsx"

type Session = Row<"sessions.list">

const write = "sessions:write"
const nameOf = ({ id, ipAddress }: Session) => `session ${id} from ${ipAddress}`

const End = ({ of: session }: Of<Session>) => (
  <ConfirmAct
    name="sessions.end"
    of={session}
    verb="End"
    what="session"
    title={`End ${nameOf(session)}`}
    done={`Session ${session.id} has ended`}
    needs={write}
    unless={session.isActive ? undefined : "The session has ended"}
  >
    Your product refuses it from the next request on. The trial user can start a new one.
  </ConfirmAct>
)

/** Sessions, on a page of their own or those of one trial user, which can be ended one by one or together. */
export const Sessions = ({ userId }: { readonly userId?: number }) => {
  const selection = useSelection<Session>()
  const listed: Listed<"sessions.list"> = {
    name: "sessions.list",
    input: { query: userId === undefined ? {} : { userId } },
    filters: [
      ...(userId === undefined ? [{ key: "userId", label: "Id of the trial user", isSearched: true }] : []),
      activeFilter
    ],
    label: "Sessions",
    order: "-startedAt",
    nameOf,
    rowClass: ({ isActive }) => (isActive ? undefined : "gone"),
    selection,
    everySeconds: 30,
    empty: ["There is no trial session yet", "Your product opens one when a trial user signs in to it."],
    columns: [
      { title: "Session", isNumber: true, cell: ({ id }) => id },
      { title: "Trial user", cell: ({ trialUserId }) => <TrialUserName id={trialUserId} /> },
      { title: "State", cell: ({ isActive }) => (isActive ? <Tag tone="ok">active</Tag> : <Tag>ended</Tag>) },
      { title: "Address", cell: ({ ipAddress }) => <code>{ipAddress}</code> },
      { title: "Last activity", cell: ({ lastActivityAt }) => <Moment at={lastActivityAt} /> },
      { title: "Started", sort: "startedAt", cell: ({ startedAt }) => <Moment at={startedAt} /> }
    ],
    acts: [End]
  }
  const bulk = (
    <BulkBar selection={selection}>
      <BulkAct
        button="bad"
        needs={write}
        label="End sessions"
        title="End sessions"
        action="End the sessions"
        selection={selection}
        nameOf={nameOf}
        each={({ id }) => call("sessions.end", { params: { id } })}
      >
        <p>Your product refuses them from the next request on. Their users can start new ones.</p>
      </BulkAct>
    </BulkBar>
  )
  return userId === undefined ? (
    <ListPage
      title="Trial sessions"
      lead="Sessions of trial users in your product. A session ends when it is idle, when the trial ends, or here."
      above={bulk}
      {...listed}
    />
  ) : (
    <>
      <h2>Sessions</h2>
      {bulk}
      <List {...listed} />
    </>
  )
}

/** Open and ended sessions of trial users. */
export default () => <Sessions />
