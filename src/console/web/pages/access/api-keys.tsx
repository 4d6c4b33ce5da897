import { useLocation } from "wouter"
import { useFirst } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { ScopeChips } from "../../kit/forms/scopes.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { useApplications } from "../../kit/names/names.tsx"
import { TenantField, useTenantColumn, useTenantFilter } from "../../kit/names/tenants.tsx"
import { NameLink } from "../../kit/parts.tsx"
import { KeyFields, KeyStatus, Made, RevokeKey, RotateKey, write } from "./keys.tsx"

const create = formOf("apiKeys.create")

const Create = () => (
  <create.Make
    label="Create a key"
    title="Create an API key"
    action="Create the key"
    wide
    needs={write}
    shows={(made) => <Made made={made} />}
  >
    <KeyFields>
      <TenantField none="None (the whole installation)" />
    </KeyFields>
  </create.Make>
)

/** The first key, which leads on to what comes after it. */
const CreateFirst = ({ onClose }: { readonly onClose: () => void }) => {
  const [, go] = useLocation()
  return (
    <create.Dialog
      title="Create the first API key"
      action="Create the key"
      wide
      onClose={onClose}
      shows={(made) => <Made made={made} onKept={() => go("/")} />}
    >
      <p>Programs use a key to call the API and the models. This one may call models; change its scopes as you like.</p>
      <KeyFields scopes={["llm:complete", "llm:embed", "llm:read"]} />
    </create.Dialog>
  )
}

/** Keys of programs: made, rotated and revoked. */
export default function ApiKeys() {
  useFirst((onClose) => <CreateFirst onClose={onClose} />)
  return (
    <ListPage
      title="API keys"
      lead="Programs call this service with a key. A key may do what its scopes allow, and no more than its creator."
      actions={<Create />}
      name="apiKeys.list"
      filters={[{ key: "applicationId", label: "Application", options: useApplications() }, useTenantFilter()]}
      searches="Name, start of the key or id"
      rowClass={({ status }) => (status === "active" ? undefined : "gone")}
      empty={["There is no key yet", "A key lets a program call the API and the models."]}
      columns={[
        {
          title: "Name",
          sort: "name",
          cell: ({ id, name, start }) => (
            <span className="lines">
              <NameLink name={name} to={`/api-keys/${id}`} />
              <code>{start}…</code>
            </span>
          )
        },
        { title: "Status", cell: (key) => <KeyStatus of={key} /> },
        ...useTenantColumn(),
        { title: "Scopes", cell: ({ scopes }) => <ScopeChips scopes={scopes} /> },
        ...useSpendColumn("api-key"),
        { title: "Last used", sort: "lastUsedAt", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} /> },
        {
          title: "Created",
          sort: "createdAt",
          cell: ({ createdAt, expiresAt }) => (
            <span className="lines">
              <Moment at={createdAt} />
              {expiresAt && (
                <small>
                  until <Moment at={expiresAt} style="date" />
                </small>
              )}
            </span>
          )
        }
      ]}
      acts={[RotateKey, RevokeKey]}
    />
  )
}
