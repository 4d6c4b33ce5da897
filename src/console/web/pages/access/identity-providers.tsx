import { useState } from "react"
import { useChange } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, Copy, type Of } from "../../kit/actions.tsx"
import { Dialog, useDialogs } from "../../kit/dialog.tsx"
import { Cut, Moment } from "../../kit/format.tsx"
import { SelectField } from "../../kit/forms/form.tsx"
import { ConfirmAct, formOf, SwitchAct } from "../../kit/forms/operation.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { TenantField, TenantName } from "../../kit/names/tenants.tsx"
import { Facts, Fault, orNone, Tag } from "../../kit/parts.tsx"
import { RolePicker } from "./role-picker.tsx"

type Provider = Row<"identityProviders.list">
type Kind = Provider["kind"]

const write = "identity-providers:write"
const kinds: Record<Kind, string> = { login: "people sign in", workload: "workloads exchange tokens" }
const create = formOf("identityProviders.create")
const update = formOf("identityProviders.update")

const Fields = ({ kind, provider }: { readonly kind: Kind; readonly provider?: Provider }) =>
  kind === "workload" ? (
    <create.Field
      label="Subjects"
      name="subjects"
      className="code"
      rows={4}
      placeholder="repo:acme/shop:ref:refs/heads/main"
      hint="The sub of the tokens that may be exchanged, one per line; empty for none"
    />
  ) : (
    <>
      <div className="row2">
        <create.Field label="Client id" name="clientId" />
        <create.Field
          label="Client secret"
          name="clientSecret"
          type="password"
          autoComplete="off"
          hint={
            provider?.hasClientSecret === true
              ? "Leave empty to keep the stored one"
              : "Stored encrypted and never shown; empty for a public client"
          }
        />
      </div>
      <create.Field
        label="Domains"
        name="domains"
        placeholder="example.com"
        hint="Where verified e-mail addresses must be from; empty for anywhere, also unverified"
      />
      <RolePicker name="defaultRoleIds" label="Roles of a new account" initial={provider?.defaultRoleIds ?? []} />
    </>
  )

const Create = () => {
  const [kind, setKind] = useState<Kind>("login")
  return (
    <create.Dialog
      title="Add an identity provider"
      action="Add the provider"
      done="The provider is added"
      wide
      body={{ kind }}
    >
      <p>Its OpenID configuration is read first, and a provider that cannot be used is refused.</p>
      <div className="row2">
        <SelectField
          label="Used for"
          value={kind}
          onChange={(event) => setKind(event.target.value === "workload" ? "workload" : "login")}
          options={{ login: "People sign in with it", workload: "Agents exchange its tokens" }}
        />
        <create.Field
          label="Issuer"
          name="issuer"
          type="url"
          placeholder="https://login.example.com"
          hint="Exactly as in the provider's tokens"
        />
      </div>
      <TenantField none="None (the whole installation)" />
      <Fields kind={kind} />
    </create.Dialog>
  )
}

const Edit = ({ of: provider }: Of<Provider>) => (
  <update.Change title={`Change ${provider.issuer}`} done="The provider is changed" of={provider} wide needs={write}>
    <Fields kind={provider.kind} provider={provider} />
  </update.Change>
)

const Tested = ({ tested }: { readonly tested: Answer<"identityProviders.test"> }) => (
  <Facts
    facts={[
      ["Sign-in page", orNone(tested.authorizationEndpoint, String)],
      ["Token endpoint", orNone(tested.tokenEndpoint, String)],
      [
        "Keys",
        tested.keys.map(({ algorithm, kid }) => (
          <span key={kid ?? ""} className="chip">
            {kid ?? "without an id"} {algorithm}
          </span>
        ))
      ],
      tested.redirectUri === null
        ? null
        : [
            "Redirect URI to register",
            <>
              <code>{tested.redirectUri}</code> <Copy text={tested.redirectUri} what="Redirect URI" />
            </>
          ]
    ]}
  />
)

const TestDialog = ({ of: provider }: Of<Provider>) => {
  const { close } = useDialogs()
  const test = useChange("identityProviders.test")
  return (
    <Dialog title={`Test ${provider.issuer}`} wide>
      <div className="in">
        <p>Reads its OpenID configuration and its keys again, and changes nothing.</p>
        <Fault cause={test.error} />
        {test.data === undefined ? null : (
          <>
            <p>
              <Tag tone="ok">it works</Tag>
            </p>
            <Tested tested={test.data} />
          </>
        )}
      </div>
      <footer>
        <Act onClick={close}>Close</Act>
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

const Test = ({ of }: Of<Provider>) => (
  <Act needs="identity-providers:read" opens={<TestDialog of={of} />}>
    Test
  </Act>
)

const Disable = ({ of: provider }: Of<Provider>) => (
  <SwitchAct
    name="identityProviders.update"
    of={provider}
    isOn={provider.status === "active"}
    off="Disable"
    what="provider"
    title={`${provider.status === "active" ? "Disable" : "Activate"} ${provider.issuer}`}
    needs={write}
    meaning={
      provider.kind === "login"
        ? [
            "No sign-in uses it until it is active again. Sessions that it opened continue.",
            "People sign in with it again."
          ]
        : [
            "Its tokens are not exchanged until it is active again. Sessions that it opened continue.",
            "Its tokens are exchanged again."
          ]
    }
  />
)

const Delete = ({ of: provider }: Of<Provider>) => (
  <ConfirmAct
    name="identityProviders.delete"
    of={provider}
    verb="Delete"
    what="provider"
    title={`Delete ${provider.issuer}`}
    needs={write}
  >
    The provider and its client secret are deleted for good. The accounts that it created stay, and cannot sign in until
    they get a password.
  </ConfirmAct>
)

/** The issuers that are trusted, for people and for workloads. */
export default () => (
  <ListPage
    title="Identity providers"
    lead="OpenID Connect issuers that are trusted: for people who sign in, and for workloads."
    actions={
      <Act kind="main" icon="plus" needs={write} opens={<Create />}>
        Add an identity provider
      </Act>
    }
    name="identityProviders.list"
    searches="Issuer, client or domain"
    order="-createdAt"
    filters={[{ key: "kind", label: "Kind", options: { login: "people", workload: "workloads" } }]}
    rowClass={({ status }) => (status === "active" ? undefined : "gone")}
    empty={[
      "There is no identity provider yet",
      "With one, people sign in with the accounts they already have, and workloads need no secret."
    ]}
    columns={[
      { title: "Issuer", sort: "issuer", cell: ({ issuer }) => <Cut text={issuer} /> },
      { title: "Status", cell: ({ status }) => <Tag tone={status === "active" ? "ok" : ""}>{status}</Tag> },
      { title: "Used for", cell: ({ kind }) => kinds[kind] },
      { title: "Tenant", cell: ({ tenantId }) => <TenantName id={tenantId} /> },
      { title: "Changed", cell: ({ updatedAt }) => <Moment at={updatedAt} /> }
    ]}
    acts={[Test, Edit, Disable, Delete]}
  />
)
