import { useState } from "react"
import { call } from "../../api/client.ts"
import { type Row } from "../../api/operations.ts"
import { Act, Confirm } from "../../kit/actions.tsx"
import { BulkBar, BulkDialog } from "../../kit/lists/bulk.tsx"
import { Moment } from "../../kit/format.tsx"
import { Choice, Search, useFilters } from "../../kit/lists/filters.tsx"
import { List, type Listed, ListPage } from "../../kit/lists/list.tsx"
import { useSelection } from "../../kit/lists/table.tsx"
import { TrialUserName } from "../../kit/names/names.tsx"
import { Empty } from "../../kit/states.tsx"

type Session = Row<"sessions.list">

const write = "sessions:write"
const nameOf = ({ id, ipAddress }: Session) => `session ${id} from ${ipAddress}`

/** Sessions, on a page of their own or those of one trial user, which can be ended one by one or together. */
export const Sessions = ({ userId }: { readonly userId?: number }) => {
  const filters = useFilters(["userId", "active"])
  const selection = useSelection<Session>()
  const [ending, end] = useState<Session | "chosen">()
  const close = () => end(undefined)
  const listed: Listed<"sessions.list"> = {
    name: "sessions.list",
    input: { query: { ...filters.values, ...(userId === undefined ? {} : { userId }) } },
    isFiltered: filters.isFiltered,
    filters: (
      <>
        {userId === undefined ? (
          <Search
            label="Id of the trial user"
            value={filters.values.userId}
            onSearch={(value) => filters.set("userId", value)}
          />
        ) : null}
        <Choice
          label="Active"
          value={filters.values.active}
          onChange={(value) => filters.set("active", value)}
          options={[
            ["true", "yes"],
            ["false", "no"]
          ]}
        />
      </>
    ),
    label: "Sessions",
    order: "-startedAt",
    keyOf: ({ id }) => String(id),
    nameOf,
    rowClass: ({ isActive }) => (isActive ? undefined : "gone"),
    selection,
    everySeconds: 30,
    empty: (
      <Empty title="There is no session yet">
        <p>Your product opens one when a trial user signs in to it.</p>
      </Empty>
    ),
    columns: [
      { title: "Session", isNumber: true, cell: ({ id }) => id },
      {
        title: "Trial user",
        cell: ({ trialUserId }) => <TrialUserName id={trialUserId} />
      },
      {
        title: "State",
        cell: ({ isActive }) => <span className={isActive ? "tag ok" : "tag"}>{isActive ? "active" : "ended"}</span>
      },
      { title: "Address", cell: ({ ipAddress }) => <code>{ipAddress}</code> },
      { title: "Last activity", cell: ({ lastActivityAt }) => <Moment at={lastActivityAt} /> },
      { title: "Started", sort: "startedAt", cell: ({ startedAt }) => <Moment at={startedAt} /> },
      {
        title: "",
        isNumber: true,
        cell: (session) => (
          <Act
            kind="bad"
            needs={write}
            unless={session.isActive ? undefined : "The session has ended"}
            onClick={() => end(session)}
          >
            End
          </Act>
        )
      }
    ]
  }
  const bulk = (
    <BulkBar selection={selection}>
      <Act kind="bad" needs={write} onClick={() => end("chosen")}>
        End sessions
      </Act>
    </BulkBar>
  )
  const dialogs = (
    <>
      {ending === "chosen" ? (
        <BulkDialog
          title="End sessions"
          action="End the sessions"
          selection={selection}
          nameOf={nameOf}
          each={({ id }) => call("sessions.end", { params: { id } })}
          onClose={close}
        >
          <p>Your product refuses them from the next request on. Their users can open new ones.</p>
        </BulkDialog>
      ) : ending === undefined ? null : (
        <Confirm
          name="sessions.end"
          input={{ params: { id: ending.id } }}
          title={`End ${nameOf(ending)}`}
          action="End the session"
          done={`Session ${ending.id} has ended`}
          onClose={close}
        >
          <p>Your product refuses it from the next request on. The trial user can open a new one.</p>
        </Confirm>
      )}
    </>
  )
  return userId === undefined ? (
    <ListPage
      title="Sessions"
      lead="Stays of trial users in your product. They end when idle, with the trial, or here."
      above={bulk}
      {...listed}
    >
      {dialogs}
    </ListPage>
  ) : (
    <>
      <h2>Sessions</h2>
      {bulk}
      <List {...listed} />
      {dialogs}
    </>
  )
}

/** Open and ended sessions of trial users. */
export default () => <Sessions />
