import { type ReactNode } from "react"
import { Link } from "wouter"
import { type Answer } from "../../api/operations.ts"
import { type Of } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { ConfirmAct, formOf, SwitchAct } from "../../kit/forms/operation.tsx"
import { ScopeChips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { isBuiltIn } from "../../kit/names/built-in.ts"
import { Called, Card, DetailPage, Facts, Tag } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { applicationTones } from "./applications.tsx"
import { Registration } from "./registration.tsx"

type Application = Answer<"applications.get">

const write = "applications:write"
const update = formOf("applications.update")
const key = formOf("apiKeys.create")

const Edit = ({ of: application }: Of<Application>) => {
  const isFixed = isBuiltIn(application)
  return (
    <update.Change
      needs={write}
      of={application}
      body={({ slug = application.slug, ...body }) => (isFixed ? body : { ...body, slug })}
    >
      <update.Field label="Name" name="name" />
      <update.Field
        label="Short name"
        name="slug"
        maxLength={63}
        readOnly={isFixed}
        hint={isFixed ? "A built-in application keeps it" : "For addresses"}
      />
      <update.Field label="Description" name="description" />
    </update.Change>
  )
}

const MakeKey = ({ of: application }: Of<Application>) => (
  <key.Make
    label="Create a key"
    title={`Create a key of ${application.name}`}
    action="Create the key"
    wide
    needs="api-keys:write"
    body={{ applicationId: application.id }}
    shows={(made) => <SecretDialog title={`Key ${made.name}`} what="API key" secret={made.key} />}
  >
    <div className="row2">
      <key.Field label="Name" name="name" defaultValue={application.slug} />
      <key.Field label="Expires" name="expiresAt" hint="Local time; empty for no end" />
    </div>
    <ScopePicker initial={["configuration:read"]} />
  </key.Make>
)

const lockOf = (application: Application) =>
  isBuiltIn(application) ? "A built-in application keeps its short name and status, and cannot be deleted" : undefined

const Suspend = ({ of: application }: Of<Application>) => (
  <SwitchAct
    name="applications.update"
    of={application}
    isOn={application.status !== "suspended"}
    what="application"
    needs={write}
    unless={lockOf(application) ?? (application.status === "active" ? undefined : `It is ${application.status}`)}
    meaning={[
      "It keeps its roles, keys and configuration, and can be activated again.",
      "It is active again, with its roles, keys and configuration."
    ]}
  />
)

const Delete = ({ of: application }: Of<Application>) => (
  <ConfirmAct
    name="applications.delete"
    of={application}
    verb="Delete"
    what="application"
    needs={write}
    unless={lockOf(application)}
    leads={() => "/applications"}
  >
    The application is deleted for good. It is refused while a role, a key or a file belongs to it: delete those first.
  </ConfirmAct>
)

const Keys = ({ of: { id } }: Of<Application>) => (
  <Called name="apiKeys.list" input={{ query: { applicationId: id, limit: 200 } }} rows={2}>
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
  </Called>
)

const Roles = ({ of: { id } }: Of<Application>) => (
  <Called name="roles.list" input={{ query: { applicationId: id } }} rows={2}>
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
  </Called>
)

const Configuration = ({ of: { id } }: Of<Application>) => (
  <Called name="configurationTrees.get" input={{ query: { applicationId: id } }} rows={2}>
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
  </Called>
)

interface OfPart {
  readonly children: ReactNode
  readonly link: readonly [href: string, text: string]
  readonly needs: string
  readonly title: string
}

const Part = ({ children, link, needs, title }: OfPart) => (
  <Card title={title} span={6} link={link}>
    <div className="in">
      {useCan()(needs) ? (
        children
      ) : (
        <Empty title="You may not see this">
          <p>
            It requires the capability <code>{needs}</code>.
          </p>
        </Empty>
      )}
    </div>
  </Card>
)

/** One application: what it is, and what belongs to it. */
export default () => (
  <DetailPage
    name="applications.get"
    entity="Application"
    what="Application"
    lead={({ description, status }) => (
      <>
        <Tag tone={applicationTones[status]}>{status}</Tag> {description}
      </>
    )}
    actions={[Edit, Suspend, Delete, MakeKey]}
  >
    {(application) => (
      <>
        {isBuiltIn(application) ? null : <Registration id={application.id} name={application.name} />}
        <div className="grid">
          <Card title="Application" span={6}>
            <Facts
              className="facts in"
              facts={[
                ["Id", application.id],
                ["Short name", <code>{application.slug}</code>],
                ["Created", <Moment at={application.createdAt} style="full" />],
                ["Changed", <Moment at={application.updatedAt} style="full" />]
              ]}
            />
          </Card>
          <Part title="Keys" needs="api-keys:read" link={["/api-keys", "All keys"]}>
            <Keys of={application} />
          </Part>
          <Part title="Roles" needs="roles:read" link={[`/roles?application=${application.id}`, "Open the matrix"]}>
            <Roles of={application} />
          </Part>
          <Part
            title="Configuration"
            needs="configuration:read"
            link={[`/files?application=${application.id}`, "Open the files"]}
          >
            <Configuration of={application} />
          </Part>
        </div>
      </>
    )}
  </DetailPage>
)
