import { useState } from "react"
import { Link, useLocation, useParams } from "wouter"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Act, Confirm, CopyCurl, FormActions } from "../../kit/actions.tsx"
import { isBuiltIn } from "../../kit/names/built-in.ts"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, instantOf, textOf, TextField } from "../../kit/forms/form.tsx"
import { Moment } from "../../kit/format.tsx"
import { ScopeChips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { Page } from "../../kit/page.tsx"
import { applicationTones } from "./applications.tsx"
import { Registration } from "./registration.tsx"

type Application = Answer<"applications.get">
type NewKey = Answer<"apiKeys.create">

const write = "applications:write"
const builtIn = "A built-in application keeps its short name and its status, and is never deleted"

interface Changing {
  readonly application: Application
  readonly onClose: () => void
}

const Edit = ({ application, onClose }: Changing) => {
  const update = useChange("applications.update", `${application.name} is changed`)
  return (
    <Dialog title={`Change ${application.name}`} onClose={onClose}>
      <Form
        cause={update.error}
        onSubmit={(data) =>
          update.mutate(
            {
              params: { id: application.id },
              body: {
                name: textOf(data, "name") ?? "",
                description: textOf(data, "description") ?? "",
                ...(isBuiltIn(application) ? {} : { slug: textOf(data, "slug") ?? "" })
              }
            },
            { onSuccess: onClose }
          )
        }
        actions={<FormActions action="Save" isPending={update.isPending} onClose={onClose} />}
      >
        <TextField label="Name" name="name" required maxLength={100} defaultValue={application.name} />
        <TextField
          label="Short name"
          name="slug"
          required
          maxLength={63}
          defaultValue={application.slug}
          readOnly={isBuiltIn(application)}
          hint={isBuiltIn(application) ? "A built-in application keeps it" : "For addresses"}
        />
        <TextField label="Description" name="description" maxLength={1000} defaultValue={application.description} />
      </Form>
    </Dialog>
  )
}

const MakeKey = ({ application, onClose, onMade }: Changing & { readonly onMade: (key: NewKey) => void }) => {
  const create = useChange("apiKeys.create")
  const [scopes, setScopes] = useState<ReadonlyArray<string>>(["configuration:read"])
  const submit = (data: FormData) => {
    const expiresAt = instantOf(data, "expiresAt")
    create.mutate(
      {
        body: {
          name: textOf(data, "name") ?? "",
          scopes,
          applicationId: application.id,
          ...(expiresAt === undefined ? {} : { expiresAt })
        }
      },
      { onSuccess: onMade }
    )
  }
  return (
    <Dialog title={`Make a key of ${application.name}`} onClose={onClose} wide>
      <Form
        cause={create.error}
        onSubmit={submit}
        actions={<FormActions action="Make the key" isPending={create.isPending} onClose={onClose} />}
      >
        <div className="row2">
          <TextField label="Name" name="name" required maxLength={100} defaultValue={application.slug} />
          <TextField label="Expires" name="expiresAt" type="datetime-local" hint="Local time; empty for no end" />
        </div>
        <ScopePicker scopes={scopes} onChange={setScopes} />
      </Form>
    </Dialog>
  )
}

type Shown =
  | { readonly what: "edit" | "key" | "suspend" | "activate" | "delete" }
  | { readonly what: "made"; readonly key: NewKey }

const Statuses = ({ application, onClose, shown }: Changing & { readonly shown: Shown }) => {
  const { id, name } = application
  const params = { id }
  switch (shown.what) {
    case "suspend":
      return (
        <Confirm
          name="applications.update"
          input={{ params, body: { status: "suspended" } }}
          title={`Suspend ${name}`}
          action="Suspend the application"
          done={`${name} is suspended`}
          onClose={onClose}
        >
          <p>It stays with its roles, its keys and its configuration until it is activated again.</p>
        </Confirm>
      )
    case "activate":
      return (
        <Confirm
          name="applications.update"
          input={{ params, body: { status: "active" } }}
          title={`Activate ${name}`}
          action="Activate the application"
          kind="main"
          done={`${name} is active`}
          onClose={onClose}
        >
          <p>It is active again, with its roles, its keys and its configuration.</p>
        </Confirm>
      )
    default:
      return null
  }
}

const Keys = ({ id }: { readonly id: number }) => {
  const asked = useCall("apiKeys.list", { query: { applicationId: id, limit: 200 } })
  return (
    <Answered asked={asked} rows={2}>
      {({ items, nextCursor }) => {
        const own = items.filter(({ status }) => status === "active")
        return (
          <div className="stack">
            {own.length === 0 ? <p className="soft">No active key belongs to it.</p> : null}
            {own.map((key) => (
              <div key={key.id} className="line">
                <strong>{key.name}</strong> <code>{key.start}…</code>
                <ScopeChips scopes={key.scopes} />
                <small>
                  used <Moment at={key.lastUsedAt} />
                </small>
              </div>
            ))}
            {nextCursor === null ? null : (
              <p className="soft">Of the first 200 keys; the others are with the API keys.</p>
            )}
          </div>
        )
      }}
    </Answered>
  )
}

const Roles = ({ id }: { readonly id: number }) => {
  const asked = useCall("roles.list", { query: { applicationId: id } })
  return (
    <Answered asked={asked} rows={2}>
      {(roles) => (
        <div className="stack">
          {roles.length === 0 ? <p className="soft">It has no role yet.</p> : null}
          {roles.map((role) => (
            <div key={role.id} className="line">
              <strong>{role.name}</strong>
              <ScopeChips scopes={role.capabilities} />
            </div>
          ))}
        </div>
      )}
    </Answered>
  )
}

const Configuration = ({ id }: { readonly id: number }) => {
  const asked = useCall("configurationTrees.get", { query: { applicationId: id } })
  return (
    <Answered asked={asked} rows={2}>
      {(nodes) =>
        nodes.length === 0 ? (
          <p className="soft">It has no file yet.</p>
        ) : (
          <ul className="plain">
            {nodes.map(({ id: node, name, type, updatedAt }) => (
              <li key={node} className="line">
                <Link className="link" href={`/files/${node}`}>
                  {name}
                  {type === "folder" ? "/" : ""}
                </Link>
                <small>
                  changed <Moment at={updatedAt} />
                </small>
              </li>
            ))}
          </ul>
        )
      }
    </Answered>
  )
}

const Part = ({
  children,
  href,
  link,
  needs,
  title
}: {
  readonly children: React.ReactNode
  readonly href: string
  readonly link: string
  readonly needs: string
  readonly title: string
}) => {
  const may = useCan()
  return (
    <section className="card span-6">
      <header>
        <h2>{title}</h2>
        <Link href={href}>{link}</Link>
      </header>
      <div className="in">
        {may(needs) ? (
          children
        ) : (
          <Empty title="You may not see this">
            <p>
              It needs the capability <code>{needs}</code>.
            </p>
          </Empty>
        )}
      </div>
    </section>
  )
}

/** One application: what it is, and what belongs to it. */
export default function ApplicationPage() {
  const { id = "" } = useParams()
  const [, go] = useLocation()
  const asked = useCall("applications.get", { params: { id } })
  const [shown, show] = useState<Shown>()
  const close = () => show(undefined)
  return (
    <Answered asked={asked} rows={8}>
      {(application) => {
        const unless = isBuiltIn(application) ? builtIn : undefined
        return (
          <Page
            title={application.name}
            lead={
              <>
                <span className={`tag ${applicationTones[application.status]}`}>{application.status}</span>{" "}
                {application.description}
              </>
            }
            actions={
              <>
                <CopyCurl name="applications.get" input={{ params: { id } }} />
                <Act needs={write} onClick={() => show({ what: "edit" })}>
                  Change
                </Act>
                {application.status === "suspended" ? (
                  <Act needs={write} onClick={() => show({ what: "activate" })}>
                    Activate
                  </Act>
                ) : (
                  <Act
                    kind="bad"
                    needs={write}
                    unless={unless ?? (application.status === "active" ? undefined : `It is ${application.status}`)}
                    onClick={() => show({ what: "suspend" })}
                  >
                    Suspend
                  </Act>
                )}
                <Act kind="bad" needs={write} unless={unless} onClick={() => show({ what: "delete" })}>
                  Delete
                </Act>
                <Act kind="main" icon="plus" needs="api-keys:write" onClick={() => show({ what: "key" })}>
                  Make a key
                </Act>
              </>
            }
          >
            {isBuiltIn(application) ? null : <Registration id={application.id} name={application.name} />}
            <div className="grid">
              <section className="card span-6">
                <header>
                  <h2>Application</h2>
                </header>
                <dl className="facts in">
                  <dt>Id</dt>
                  <dd>{application.id}</dd>
                  <dt>Short name</dt>
                  <dd>
                    <code>{application.slug}</code>
                  </dd>
                  <dt>Made</dt>
                  <dd>
                    <Moment at={application.createdAt} style="full" />
                  </dd>
                  <dt>Changed</dt>
                  <dd>
                    <Moment at={application.updatedAt} style="full" />
                  </dd>
                </dl>
              </section>
              <Part title="Keys" needs="api-keys:read" href="/api-keys" link="All keys">
                <Keys id={application.id} />
              </Part>
              <Part
                title="Roles"
                needs="roles:read"
                href={`/roles?application=${application.id}`}
                link="Open the matrix"
              >
                <Roles id={application.id} />
              </Part>
              <Part
                title="Configuration"
                needs="configuration:read"
                href={`/files?application=${application.id}`}
                link="Open the files"
              >
                <Configuration id={application.id} />
              </Part>
            </div>
            {shown?.what === "edit" ? <Edit application={application} onClose={close} /> : null}
            {shown?.what === "key" ? (
              <MakeKey application={application} onClose={close} onMade={(key) => show({ what: "made", key })} />
            ) : null}
            {shown?.what === "made" ? (
              <SecretDialog title={`Key ${shown.key.name}`} what="API key" secret={shown.key.key} onClose={close} />
            ) : null}
            {shown?.what === "delete" ? (
              <Confirm
                name="applications.delete"
                input={{ params: { id } }}
                title={`Delete ${application.name}`}
                action="Delete the application"
                done={`${application.name} is deleted`}
                onClose={close}
                onDone={() => go("/applications")}
              >
                <p>
                  The application is gone for good. It is refused while a role, a key or a file belongs to it: delete
                  those first.
                </p>
              </Confirm>
            ) : null}
            {shown === undefined ? null : <Statuses application={application} shown={shown} onClose={close} />}
          </Page>
        )
      }}
    </Answered>
  )
}
