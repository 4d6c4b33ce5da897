import { type ReactNode } from "react"
import { Link, useLocation } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { Act } from "../../kit/actions.tsx"
import { useDialogs } from "../../kit/dialog.tsx"
import { Moment } from "../../kit/format.tsx"
import { Confirm, formOf } from "../../kit/forms/operation.tsx"
import { ScopeChips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { isBuiltIn } from "../../kit/names/built-in.ts"
import { Card, DetailPage, Facts, Tag } from "../../kit/parts.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { useCan } from "../../shell/session.tsx"
import { applicationTones } from "./applications.tsx"
import { Registration } from "./registration.tsx"

interface About {
  readonly application: Answer<"applications.get">
}

const write = "applications:write"
const builtIn = "A built-in application keeps its short name and its status, and is never deleted"
const update = formOf("applications.update")
const key = formOf("apiKeys.create")

const Edit = ({ application }: About) => {
  const isFixed = isBuiltIn(application)
  return (
    <update.Dialog
      title={`Change ${application.name}`}
      action="Save"
      done={`${application.name} is changed`}
      input={{ params: { id: application.id } }}
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
    </update.Dialog>
  )
}

const MakeKey = ({ application }: About) => {
  const { open } = useDialogs()
  return (
    <key.Dialog
      title={`Make a key of ${application.name}`}
      action="Make the key"
      wide
      body={{ applicationId: application.id }}
      onDone={(made) => open(<SecretDialog title={`Key ${made.name}`} what="API key" secret={made.key} />)}
    >
      <div className="row2">
        <key.Field label="Name" name="name" defaultValue={application.slug} />
        <key.Field label="Expires" name="expiresAt" hint="Local time; empty for no end" />
      </div>
      <ScopePicker initial={["configuration:read"]} />
    </key.Dialog>
  )
}

const Suspend = ({ application: { id, name } }: About) => (
  <Confirm
    name="applications.update"
    input={{ params: { id }, body: { status: "suspended" } }}
    title={`Suspend ${name}`}
    action="Suspend the application"
    done={`${name} is suspended`}
  >
    <p>It stays with its roles, its keys and its configuration until it is activated again.</p>
  </Confirm>
)

const Activate = ({ application: { id, name } }: About) => (
  <Confirm
    name="applications.update"
    input={{ params: { id }, body: { status: "active" } }}
    title={`Activate ${name}`}
    action="Activate the application"
    kind="main"
    done={`${name} is active`}
  >
    <p>It is active again, with its roles, its keys and its configuration.</p>
  </Confirm>
)

const Delete = ({ application: { id, name } }: About) => {
  const [, go] = useLocation()
  return (
    <Confirm
      name="applications.delete"
      input={{ params: { id } }}
      title={`Delete ${name}`}
      action="Delete the application"
      done={`${name} is deleted`}
      onDone={() => go("/applications")}
    >
      <p>
        The application is gone for good. It is refused while a role, a key or a file belongs to it: delete those first.
      </p>
    </Confirm>
  )
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
  link,
  needs,
  title
}: {
  readonly children: ReactNode
  readonly link: readonly [href: string, text: string]
  readonly needs: string
  readonly title: string
}) => (
  <Card title={title} span={6} link={link}>
    <div className="in">
      {useCan()(needs) ? (
        children
      ) : (
        <Empty title="You may not see this">
          <p>
            It needs the capability <code>{needs}</code>.
          </p>
        </Empty>
      )}
    </div>
  </Card>
)

const Acts = ({ application }: About) => {
  const unless = isBuiltIn(application) ? builtIn : undefined
  const inactive = application.status === "active" ? undefined : `It is ${application.status}`
  return (
    <>
      <Act needs={write} opens={<Edit application={application} />}>
        Change
      </Act>
      {application.status === "suspended" ? (
        <Act needs={write} opens={<Activate application={application} />}>
          Activate
        </Act>
      ) : (
        <Act kind="bad" needs={write} unless={unless ?? inactive} opens={<Suspend application={application} />}>
          Suspend
        </Act>
      )}
      <Act kind="bad" needs={write} unless={unless} opens={<Delete application={application} />}>
        Delete
      </Act>
      <Act kind="main" icon="plus" needs="api-keys:write" opens={<MakeKey application={application} />}>
        Make a key
      </Act>
    </>
  )
}

/** One application: what it is, and what belongs to it. */
export default function ApplicationPage() {
  return (
    <DetailPage
      name="applications.get"
      what="Application"
      title={({ name }) => name}
      lead={({ description, status }) => (
        <>
          <Tag tone={applicationTones[status]}>{status}</Tag> {description}
        </>
      )}
      actions={(application) => <Acts application={application} />}
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
                  ["Made", <Moment at={application.createdAt} style="full" />],
                  ["Changed", <Moment at={application.updatedAt} style="full" />]
                ]}
              />
            </Card>
            <Part title="Keys" needs="api-keys:read" link={["/api-keys", "All keys"]}>
              <Keys id={application.id} />
            </Part>
            <Part title="Roles" needs="roles:read" link={[`/roles?application=${application.id}`, "Open the matrix"]}>
              <Roles id={application.id} />
            </Part>
            <Part
              title="Configuration"
              needs="configuration:read"
              link={[`/files?application=${application.id}`, "Open the files"]}
            >
              <Configuration id={application.id} />
            </Part>
          </div>
        </>
      )}
    </DetailPage>
  )
}
