import { useState } from "react"
import { Link, useLocation } from "wouter"
import { call } from "../../api/client.ts"
import { useChange } from "../../api/hooks.ts"
import { type Row, type Sort } from "../../api/operations.ts"
import { Act, FormActions } from "../../kit/actions.tsx"
import { BulkBar, BulkDialog } from "../../kit/lists/bulk.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, numberOf, textOf, TextField } from "../../kit/forms/form.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { type Column, useSelection } from "../../kit/lists/table.tsx"
import { Empty } from "../../kit/states.tsx"
import { daysLeft, extend, TrialState } from "./trials.tsx"

type User = Row<"trialUsers.list">

const write = "trial-users:write"
const nameOf = ({ firstName, lastName }: User) => `${firstName} ${lastName}`

const Create = ({ onClose }: { readonly onClose: () => void }) => {
  const [, go] = useLocation()
  const create = useChange("trialUsers.create")
  const submit = (data: FormData) => {
    const organization = textOf(data, "organization")
    create.mutate(
      {
        body: {
          firstName: textOf(data, "firstName") ?? "",
          lastName: textOf(data, "lastName") ?? "",
          email: textOf(data, "email") ?? "",
          ...(organization === undefined ? {} : { organization })
        }
      },
      { onSuccess: ({ id }) => go(`/trial-users/${id}`) }
    )
  }
  return (
    <Dialog title="Admit a trial user" onClose={onClose}>
      <Form
        cause={create.error}
        onSubmit={submit}
        actions={<FormActions action="Admit the user" isPending={create.isPending} onClose={onClose} />}
      >
        <p>The trial starts now.</p>
        <div className="row2">
          <TextField label="First name" name="firstName" required maxLength={100} />
          <TextField label="Last name" name="lastName" required maxLength={100} />
        </div>
        <TextField label="E-mail address" name="email" type="email" required maxLength={254} />
        <TextField label="Organization" name="organization" maxLength={200} hint="Stored, and shown nowhere" />
      </Form>
    </Dialog>
  )
}

/** Ends every session of a trial user. */
const endSessions = async ({ id }: User) => {
  const sessions = await call("sessions.list", { query: { userId: id, active: true } })
  await Promise.all(sessions.map(({ id: session }) => call("sessions.end", { params: { id: session } })))
}

const columns: ReadonlyArray<Column<User, Sort<"trialUsers.list">>> = [
  {
    title: "Name",
    sort: "lastName",
    cell: (user) => (
      <Link className="name" title={nameOf(user)} href={`/trial-users/${user.id}`}>
        {nameOf(user)}
      </Link>
    )
  },
  { title: "E-mail address", sort: "email", cell: ({ email }) => <Cut text={email} /> },
  { title: "State", cell: (user) => <TrialState user={user} /> },
  { title: "Days left", isNumber: true, cell: ({ trialEndDate }) => daysLeft(trialEndDate) },
  { title: "Ends", sort: "trialEndDate", cell: ({ trialEndDate }) => <Moment at={trialEndDate} style="date" /> },
  { title: "Admitted", sort: "createdAt", cell: ({ createdAt }) => <Moment at={createdAt} /> }
]

type Shown = "create" | "extend" | "deactivate" | "activate" | "end"

/** People admitted for a trial. */
export default function TrialUsers() {
  const filters = useFilters(["active"])
  const selection = useSelection<User>()
  const [shown, show] = useState<Shown>()
  const close = () => show(undefined)
  const { active } = filters.values
  const query = active === undefined ? {} : { active }
  const bulk = { selection, nameOf, onClose: close }
  return (
    <ListPage
      title="Trial users"
      lead="People whom your product admits for a trial. They do not sign in here."
      actions={
        <Act kind="main" icon="plus" needs={write} onClick={() => show("create")}>
          Admit a user
        </Act>
      }
      above={
        <BulkBar selection={selection}>
          <Act needs={write} onClick={() => show("extend")}>
            Extend
          </Act>
          <Act needs={write} onClick={() => show("activate")}>
            Activate
          </Act>
          <Act kind="bad" needs="sessions:write" onClick={() => show("end")}>
            End sessions
          </Act>
          <Act kind="bad" needs={write} onClick={() => show("deactivate")}>
            Deactivate
          </Act>
        </BulkBar>
      }
      name="trialUsers.list"
      searches="Name, e-mail address or organization"
      filters={
        <Choice
          label="Active"
          value={active}
          onChange={(value) => filters.set("active", value)}
          options={[
            ["true", "yes"],
            ["false", "no"]
          ]}
        />
      }
      input={{ query }}
      isFiltered={filters.isFiltered}
      label="Trial users"
      keyOf={({ id }) => String(id)}
      nameOf={nameOf}
      rowClass={({ isActive }) => (isActive ? undefined : "gone")}
      selection={selection}
      empty={
        <Empty title="There is no trial user yet">
          <p>Admit one here, or let your product do it over the API.</p>
        </Empty>
      }
      columns={columns}
    >
      {shown === "create" ? <Create onClose={close} /> : null}
      {shown === "extend" ? (
        <BulkDialog
          {...bulk}
          title="Extend trials"
          action="Extend"
          each={(user, data) => extend(user, numberOf(data, "days") ?? 7)}
        >
          <TextField label="Days" name="days" type="number" min={1} max={3650} defaultValue={7} required />
          <p className="soft">They are added to the end of each trial; one that is over goes on from now.</p>
        </BulkDialog>
      ) : null}
      {shown === "activate" ? (
        <BulkDialog
          {...bulk}
          title="Activate trial users"
          action="Activate"
          each={({ id }) => call("trialUsers.update", { params: { id }, body: { isActive: true } })}
        >
          <p>They can open sessions again while their trial lasts.</p>
        </BulkDialog>
      ) : null}
      {shown === "deactivate" ? (
        <BulkDialog
          {...bulk}
          title="Deactivate trial users"
          action="Deactivate"
          each={({ id }) => call("trialUsers.update", { params: { id }, body: { isActive: false } })}
        >
          <p>Their sessions end at once, and they open none until they are activated again.</p>
        </BulkDialog>
      ) : null}
      {shown === "end" ? (
        <BulkDialog {...bulk} title="End sessions" action="End their sessions" each={endSessions}>
          <p>Every session of theirs ends. They can open new ones.</p>
        </BulkDialog>
      ) : null}
    </ListPage>
  )
}
