import { useState } from "react"
import { useChange } from "../../api/hooks.ts"
import { type Answer, type Payload, type Row } from "../../api/operations.ts"
import { Act, Confirm, Copy, FormActions } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, SelectField, TextArea, textOf, TextField } from "../../kit/forms/form.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { RolePicker } from "./role-picker.tsx"
import { Empty } from "../../kit/states.tsx"
import { TenantField, TenantName } from "../../kit/names/tenants.tsx"

type Provider = Row<"identityProviders.list">
type Kind = Provider["kind"]
type Tested = Answer<"identityProviders.test">

const read = "identity-providers:read"
const write = "identity-providers:write"
const kinds: Record<Kind, string> = { login: "people sign in", workload: "workloads exchange tokens" }

const linesOf = (data: FormData, name: string): ReadonlyArray<string> =>
  (textOf(data, name) ?? "")
    .split(/[\n,]/)
    .map((line) => line.trim())
    .filter((line) => line !== "")

const Fields = ({
  kind,
  onRoles,
  provider,
  roleIds
}: {
  readonly kind: Kind
  readonly onRoles: (roles: ReadonlyArray<number>) => void
  readonly provider?: Provider
  readonly roleIds: ReadonlyArray<number>
}) =>
  kind === "workload" ? (
    <TextArea
      label="Subjects"
      name="subjects"
      className="code"
      defaultValue={provider?.subjects.join("\n")}
      placeholder="repo:acme/shop:ref:refs/heads/main"
      hint="The sub of the tokens that may be exchanged, one on a line; empty for none"
    />
  ) : (
    <>
      <div className="row2">
        <TextField label="Client id" name="clientId" maxLength={255} defaultValue={provider?.clientId ?? ""} />
        <TextField
          label="Client secret"
          name="clientSecret"
          type="password"
          autoComplete="off"
          maxLength={1024}
          hint={
            provider?.hasClientSecret === true
              ? "Empty to keep the one that is stored"
              : "Stored encrypted and never shown; empty for a public client"
          }
        />
      </div>
      <TextField
        label="Domains"
        name="domains"
        defaultValue={provider?.domains.join(", ")}
        placeholder="example.com"
        hint="Where verified e-mail addresses must be from; empty for anywhere, also unverified"
      />
      <RolePicker label="Roles of a new account" chosen={roleIds} onChange={onRoles} />
    </>
  )

/** What a form says of a provider, by its kind. */
const membersOf = (kind: Kind, data: FormData, roleIds: ReadonlyArray<number>): Payload<"identityProviders.update"> => {
  const clientSecret = textOf(data, "clientSecret")
  return kind === "workload"
    ? { subjects: linesOf(data, "subjects") }
    : {
        clientId: textOf(data, "clientId") ?? null,
        domains: linesOf(data, "domains"),
        defaultRoleIds: roleIds,
        ...(clientSecret === undefined ? {} : { clientSecret })
      }
}

const Create = ({ onClose }: { readonly onClose: () => void }) => {
  const create = useChange("identityProviders.create", "The provider is made")
  const [kind, setKind] = useState<Kind>("login")
  const [roleIds, setRoleIds] = useState<ReadonlyArray<number>>([])
  const submit = (data: FormData) => {
    const tenantId = textOf(data, "tenantId")
    create.mutate(
      {
        body: {
          ...membersOf(kind, data, roleIds),
          kind,
          issuer: textOf(data, "issuer") ?? "",
          ...(tenantId === undefined ? {} : { tenantId })
        }
      },
      { onSuccess: onClose }
    )
  }
  return (
    <Dialog title="Make an identity provider" onClose={onClose} wide>
      <Form
        cause={create.error}
        onSubmit={submit}
        actions={<FormActions action="Make the provider" isPending={create.isPending} onClose={onClose} />}
      >
        <p>Its OpenID configuration is read first, and a provider that cannot be used is refused.</p>
        <div className="row2">
          <SelectField
            label="What for"
            value={kind}
            onChange={(event) => setKind(event.target.value === "workload" ? "workload" : "login")}
            options={[
              ["login", "People sign in with it"],
              ["workload", "Agents exchange its tokens"]
            ]}
          />
          <TextField
            label="Issuer"
            name="issuer"
            type="url"
            required
            placeholder="https://login.example.com"
            hint="Exactly as in the provider's tokens"
          />
        </div>
        <TenantField none="None: of the whole installation" />
        <Fields kind={kind} roleIds={roleIds} onRoles={setRoleIds} />
      </Form>
    </Dialog>
  )
}

interface Changing {
  readonly provider: Provider
  readonly onClose: () => void
}

const Edit = ({ onClose, provider }: Changing) => {
  const update = useChange("identityProviders.update", "The provider is changed")
  const [roleIds, setRoleIds] = useState<ReadonlyArray<number>>(provider.defaultRoleIds)
  return (
    <Dialog title={`Change ${provider.issuer}`} onClose={onClose} wide>
      <Form
        cause={update.error}
        onSubmit={(data) =>
          update.mutate(
            { params: { id: provider.id }, body: membersOf(provider.kind, data, roleIds) },
            { onSuccess: onClose }
          )
        }
        actions={<FormActions action="Save" isPending={update.isPending} onClose={onClose} />}
      >
        <Fields kind={provider.kind} provider={provider} roleIds={roleIds} onRoles={setRoleIds} />
      </Form>
    </Dialog>
  )
}

const Facts = ({ tested }: { readonly tested: Tested }) => (
  <dl className="facts">
    <dt>Sign-in page</dt>
    <dd>{tested.authorizationEndpoint ?? <span className="soft">none</span>}</dd>
    <dt>Token endpoint</dt>
    <dd>{tested.tokenEndpoint ?? <span className="soft">none</span>}</dd>
    <dt>Keys</dt>
    <dd>
      {tested.keys.map(({ algorithm, kid }) => (
        <span key={kid ?? ""} className="chip">
          {kid ?? "without an id"} {algorithm}
        </span>
      ))}
    </dd>
    {tested.redirectUri === null ? null : (
      <>
        <dt>Redirect URI to register</dt>
        <dd>
          <code>{tested.redirectUri}</code> <Copy text={tested.redirectUri} what="Redirect URI" />
        </dd>
      </>
    )}
  </dl>
)

const Test = ({ onClose, provider }: Changing) => {
  const test = useChange("identityProviders.test")
  return (
    <Dialog title={`Test ${provider.issuer}`} onClose={onClose} wide>
      <div className="in">
        <p>Reads its OpenID configuration and its keys anew, and changes nothing.</p>
        {test.error === null ? null : (
          <p className="fault" role="alert">
            {test.error.message}
          </p>
        )}
        {test.data === undefined ? null : (
          <>
            <p>
              <span className="tag ok">it works</span>
            </p>
            <Facts tested={test.data} />
          </>
        )}
      </div>
      <footer>
        <button type="button" className="btn" onClick={onClose}>
          Close
        </button>
        <button
          type="button"
          className="btn main"
          disabled={test.isPending}
          onClick={() => test.mutate({ params: { id: provider.id } })}
        >
          {test.isPending ? "Testing" : test.data === undefined ? "Test" : "Test again"}
        </button>
      </footer>
    </Dialog>
  )
}

interface Shown {
  readonly what: "edit" | "test" | "disable" | "enable" | "delete"
  readonly provider: Provider
}

const Dialogs = ({ onClose, provider, what }: Shown & { readonly onClose: () => void }) => {
  const params = { id: provider.id }
  switch (what) {
    case "edit":
      return <Edit provider={provider} onClose={onClose} />
    case "test":
      return <Test provider={provider} onClose={onClose} />
    case "disable":
      return (
        <Confirm
          name="identityProviders.update"
          input={{ params, body: { status: "disabled" } }}
          title={`Disable ${provider.issuer}`}
          action="Disable the provider"
          done="The provider is disabled"
          onClose={onClose}
        >
          <p>
            {provider.kind === "login" ? "No sign-in uses it" : "Its tokens are not exchanged"} until it is active
            again. Sessions that it opened go on.
          </p>
        </Confirm>
      )
    case "enable":
      return (
        <Confirm
          name="identityProviders.update"
          input={{ params, body: { status: "active" } }}
          title={`Activate ${provider.issuer}`}
          action="Activate the provider"
          kind="main"
          done="The provider is active"
          onClose={onClose}
        >
          <p>{provider.kind === "login" ? "People sign in with it again." : "Its tokens are exchanged again."}</p>
        </Confirm>
      )
    case "delete":
      return (
        <Confirm
          name="identityProviders.delete"
          input={{ params }}
          title={`Delete ${provider.issuer}`}
          action="Delete the provider"
          done="The provider is deleted"
          onClose={onClose}
        >
          <p>
            The provider and its client secret are gone for good. The accounts that it made stay, and cannot sign in
            until they get a password.
          </p>
        </Confirm>
      )
  }
}

/** The issuers whose word counts, for people and for workloads. */
export default function IdentityProviders() {
  const filters = useFilters(["kind"])
  const [isMaking, setMaking] = useState(false)
  const [shown, show] = useState<Shown>()
  return (
    <ListPage
      title="Identity providers"
      lead="OpenID Connect issuers that are trusted: for people who sign in, and for workloads."
      actions={
        <Act kind="main" icon="plus" needs={write} onClick={() => setMaking(true)}>
          Make a provider
        </Act>
      }
      name="identityProviders.list"
      searches="Issuer, client or domain"
      order="-createdAt"
      filters={
        <Choice
          label="Kind"
          value={filters.values.kind}
          onChange={(kind) => filters.set("kind", kind)}
          options={[
            ["login", "people"],
            ["workload", "workloads"]
          ]}
        />
      }
      input={{ query: filters.values }}
      isFiltered={filters.isFiltered}
      label="Identity providers"
      keyOf={({ id }) => id}
      rowClass={({ status }) => (status === "active" ? undefined : "gone")}
      empty={
        <Empty title="There is no identity provider yet">
          <p>With one, people sign in with the accounts that they have, and workloads need no secret.</p>
        </Empty>
      }
      columns={[
        { title: "Issuer", sort: "issuer", cell: ({ issuer }) => <Cut text={issuer} /> },
        {
          title: "Status",
          cell: ({ status }) => <span className={status === "active" ? "tag ok" : "tag"}>{status}</span>
        },
        { title: "What for", cell: ({ kind }) => kinds[kind] },
        { title: "Tenant", cell: ({ tenantId }) => <TenantName id={tenantId} /> },
        { title: "Changed", cell: ({ updatedAt }) => <Moment at={updatedAt} /> },
        {
          title: "",
          isNumber: true,
          cell: (provider) => (
            <span className="acts">
              <Act needs={read} onClick={() => show({ what: "test", provider })}>
                Test
              </Act>
              <Act needs={write} onClick={() => show({ what: "edit", provider })}>
                Change
              </Act>
              {provider.status === "active" ? (
                <Act kind="bad" needs={write} onClick={() => show({ what: "disable", provider })}>
                  Disable
                </Act>
              ) : (
                <Act needs={write} onClick={() => show({ what: "enable", provider })}>
                  Activate
                </Act>
              )}
              <Act kind="bad" needs={write} onClick={() => show({ what: "delete", provider })}>
                Delete
              </Act>
            </span>
          )
        }
      ]}
    >
      {isMaking ? <Create onClose={() => setMaking(false)} /> : null}
      {shown === undefined ? null : <Dialogs {...shown} onClose={() => show(undefined)} />}
    </ListPage>
  )
}
