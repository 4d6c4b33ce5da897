import { type ReactNode, useState } from "react"
import { Link, useParams, useSearchParams } from "wouter"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer, type Payload, type Row } from "../../api/operations.ts"
import { Act, Confirm, Copy, CopyCurl, FormActions, TabLinks } from "../../kit/actions.tsx"
import { CapBar } from "../../kit/charts/cap-bar.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import {
  CheckField,
  Form,
  instantOf,
  numberOf,
  SelectField,
  TextArea,
  textOf,
  TextField
} from "../../kit/forms/form.tsx"
import { count, Moment, usd } from "../../kit/format.tsx"
import { List } from "../../kit/lists/list.tsx"
import { ScopeChips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { Answered, Empty } from "../../kit/states.tsx"
import { TenantName } from "../../kit/names/tenants.tsx"
import { useCan } from "../../shell/session.tsx"
import { Page } from "../../kit/page.tsx"

type Agent = Answer<"agents.get">
type Key = Row<"agentKeys.list">
type Delegation = Row<"delegations.list">
type Credential = Row<"agentCredentials.list">

const tones = {
  active: "ok",
  pending: "warn",
  suspended: "warn",
  retired: "",
  expired: "",
  revoked: ""
} as const
const Status = ({ of }: { readonly of: keyof typeof tones }) => <span className={`tag ${tones[of]}`}>{of}</span>

const inactive = ({ status }: Agent) => (status === "active" ? undefined : `The agent is ${status}`)

interface Changing {
  readonly agent: Agent
  readonly onClose: () => void
}

const Edit = ({ agent, onClose }: Changing) => {
  const update = useChange("agents.update", `${agent.name} is changed`)
  const [scopes, setScopes] = useState<ReadonlyArray<string>>(agent.scopeCeiling)
  const submit = (data: FormData) =>
    update.mutate(
      {
        params: { id: agent.id },
        body: {
          name: textOf(data, "name") ?? "",
          description: textOf(data, "description") ?? "",
          ownerUserId: textOf(data, "ownerUserId") ?? null,
          scopeCeiling: scopes,
          maxCredentialTtlSeconds: numberOf(data, "maxCredentialTtlSeconds") ?? 3600,
          perTurnBudget: numberOf(data, "perTurnBudget") ?? null,
          allowedTaskTypes: (textOf(data, "allowedTaskTypes") ?? "")
            .split(",")
            .map((type) => type.trim())
            .filter((type) => type !== ""),
          defaultTaskType: textOf(data, "defaultTaskType") ?? null
        }
      },
      { onSuccess: onClose }
    )
  return (
    <Dialog title={`Change ${agent.name}`} onClose={onClose} wide>
      <Form
        cause={update.error}
        onSubmit={submit}
        actions={<FormActions action="Save" isPending={update.isPending} onClose={onClose} />}
      >
        <div className="row2">
          <TextField label="Name" name="name" required maxLength={100} defaultValue={agent.name} />
          <TextField label="Owner" name="ownerUserId" maxLength={200} defaultValue={agent.ownerUserId ?? ""} />
        </div>
        <TextField label="Description" name="description" maxLength={1000} defaultValue={agent.description} />
        <ScopePicker label="Scopes it may ever be granted" scopes={scopes} onChange={setScopes} />
        <div className="row2">
          <TextField
            label="Longest life of a token in seconds"
            name="maxCredentialTtlSeconds"
            type="number"
            min={60}
            max={86_400}
            required
            defaultValue={agent.maxCredentialTtlSeconds}
          />
          <TextField
            label="Most that one call may reserve, in US dollars"
            name="perTurnBudget"
            type="number"
            min={0}
            step="any"
            placeholder="no limit"
            defaultValue={agent.perTurnBudget ?? ""}
          />
        </div>
        <div className="row2">
          <TextField
            label="Task types"
            name="allowedTaskTypes"
            defaultValue={agent.allowedTaskTypes.join(", ")}
            hint="With commas between them; empty for any"
          />
          <TextField
            label="Task type of calls that name none"
            name="defaultTaskType"
            defaultValue={agent.defaultTaskType ?? ""}
          />
        </div>
      </Form>
    </Dialog>
  )
}

const Issue = ({
  agent,
  onClose,
  onMade
}: Changing & { readonly onMade: (made: Answer<"agentCredentials.issue">) => void }) => {
  const issue = useChange("agentCredentials.issue")
  const [scopes, setScopes] = useState<ReadonlyArray<string>>(agent.scopeCeiling)
  return (
    <Dialog title={`Issue a token for ${agent.name}`} onClose={onClose} wide>
      <Form
        cause={issue.error}
        onSubmit={(data) =>
          issue.mutate(
            {
              params: { id: agent.id },
              body: {
                requestedScopes: scopes,
                ttlSeconds: (numberOf(data, "minutes") ?? agent.maxCredentialTtlSeconds / 60) * 60
              }
            },
            { onSuccess: onMade }
          )
        }
        actions={<FormActions action="Issue the token" isPending={issue.isPending} onClose={onClose} />}
      >
        <p>For an agent without a key of its own. Whoever has the token acts as the agent until it ends.</p>
        <TextField
          label="Life in minutes"
          member="ttlSeconds"
          name="minutes"
          type="number"
          min={1}
          max={agent.maxCredentialTtlSeconds / 60}
          defaultValue={agent.maxCredentialTtlSeconds / 60}
          required
        />
        <ScopePicker scopes={scopes} onChange={setScopes} />
      </Form>
    </Dialog>
  )
}

const pem = (label: string, der: ArrayBuffer): string => {
  const base64 = btoa(String.fromCharCode(...new Uint8Array(der)))
  return `-----BEGIN ${label}-----\n${base64.replace(/(.{64})(?=.)/g, "$1\n")}\n-----END ${label}-----\n`
}

/** Makes a key pair here, so that the private half never leaves the browser. */
const makeKeyPair = async () => {
  const pair = await crypto.subtle.generateKey({ name: "ECDSA", namedCurve: "P-256" }, true, ["sign", "verify"])
  return {
    publicKeyPem: pem("PUBLIC KEY", await crypto.subtle.exportKey("spki", pair.publicKey)),
    privateKeyPem: pem("PRIVATE KEY", await crypto.subtle.exportKey("pkcs8", pair.privateKey))
  }
}

/** Registers a public key, made here or pasted; instead of another one when that is rotated. */
const RegisterKey = ({
  agent,
  instead,
  onClose,
  onMade
}: Changing & { readonly instead?: Key | undefined; readonly onMade: (privateKeyPem: string) => void }) => {
  const register = useChange("agentKeys.register", "The key is registered")
  const revoke = useChange("agentKeys.revoke")
  const [source, setSource] = useState("made")
  const submit = async (data: FormData) => {
    const made = source === "made" ? await makeKeyPair() : undefined
    const validUntil = instantOf(data, "validUntil")
    const algorithm = textOf(data, "algorithm") as Payload<"agentKeys.register">["algorithm"] | undefined
    register.mutate(
      {
        params: { id: agent.id },
        body: {
          kid: textOf(data, "kid") ?? "",
          algorithm: made === undefined ? (algorithm ?? "ES256") : "ES256",
          publicKeyPem: made?.publicKeyPem ?? textOf(data, "publicKeyPem") ?? "",
          ...(validUntil === undefined ? {} : { validUntil })
        }
      },
      {
        onSuccess: () => {
          if (instead !== undefined && data.get("revoke") !== null)
            revoke.mutate({ params: { id: agent.id, keyId: instead.id } })
          if (made === undefined) onClose()
          else onMade(made.privateKeyPem)
        }
      }
    )
  }
  return (
    <Dialog title={instead === undefined ? "Register a key" : `Rotate the key ${instead.kid}`} onClose={onClose} wide>
      <Form
        cause={register.error}
        onSubmit={(data) => void submit(data)}
        actions={<FormActions action="Register the key" isPending={register.isPending} onClose={onClose} />}
      >
        <p>The agent signs its assertions with the private half; only the public half is stored here.</p>
        <div className="row2">
          <TextField
            label="Key id (kid)"
            name="kid"
            required
            maxLength={128}
            placeholder={new Date().toISOString().slice(0, 7)}
          />
          <TextField
            label="Valid until"
            name="validUntil"
            type="datetime-local"
            hint="Local time; a year from now when empty"
          />
        </div>
        <SelectField
          label="Key pair"
          value={source}
          onChange={(event) => setSource(event.target.value)}
          options={[
            ["made", "Make a P-256 pair in this browser and show the private half once"],
            ["pasted", "Paste the public half of a pair that the agent has"]
          ]}
        />
        {source === "made" ? null : (
          <>
            <SelectField
              label="Algorithm"
              name="algorithm"
              options={["ES256", "EdDSA", "PS256", "RS256"].map((name) => [name, name] as const)}
            />
            <TextArea
              label="Public key"
              name="publicKeyPem"
              className="code"
              rows={5}
              required
              placeholder={"-----BEGIN PUBLIC KEY-----\n…"}
              hint="One SPKI block in PEM"
            />
          </>
        )}
        {instead === undefined ? null : (
          <CheckField
            label={`Revoke ${instead.kid} at once`}
            name="revoke"
            hint="Else both work until you revoke it, so that the agent can change over"
          />
        )}
      </Form>
    </Dialog>
  )
}

const Delegate = ({ agent, onClose }: Changing) => {
  const create = useChange("delegations.create", "The delegation is made")
  const [scopes, setScopes] = useState<ReadonlyArray<string>>([])
  const submit = (data: FormData) => {
    const reason = textOf(data, "reason")
    const expiresAt = instantOf(data, "expiresAt")
    create.mutate(
      {
        params: { id: agent.id },
        body: {
          subject: textOf(data, "subject") ?? "",
          subjectType: (textOf(data, "subjectType") ?? "agent") as Payload<"delegations.create">["subjectType"],
          scopes,
          ...(reason === undefined ? {} : { reason }),
          ...(expiresAt === undefined ? {} : { expiresAt })
        }
      },
      { onSuccess: onClose }
    )
  }
  return (
    <Dialog title={`Let ${agent.name} act for another`} onClose={onClose} wide>
      <Form
        cause={create.error}
        onSubmit={submit}
        actions={<FormActions action="Make the delegation" isPending={create.isPending} onClose={onClose} />}
      >
        <div className="row2">
          <SelectField
            label="It acts for"
            name="subjectType"
            options={[
              ["agent", "another agent"],
              ["user", "an account"],
              ["external", "a user of an identity provider"]
            ]}
          />
          <TextField
            label="Subject"
            name="subject"
            required
            maxLength={512}
            hint="The id of the agent or account; of an external user <issuer>|<sub>"
          />
        </div>
        <ScopePicker scopes={scopes} onChange={setScopes} />
        <div className="row2">
          <TextField label="Reason" name="reason" maxLength={500} />
          <TextField label="Expires" name="expiresAt" type="datetime-local" hint="Local time; empty for no end" />
        </div>
      </Form>
    </Dialog>
  )
}

const Fact = ({ children, title }: { readonly children: ReactNode; readonly title: string }) => (
  <>
    <dt>{title}</dt>
    <dd>{children}</dd>
  </>
)

const Spend = ({ id }: { readonly id: string }) => {
  const may = useCan()
  const overview = useCall("insights.overview", { query: { agentId: id } }, { enabled: may("insights:read") })
  const caps = useCall("budgetCaps.status", { query: { limit: 200 } }, { enabled: may("budgets:read") })
  const own = (caps.data?.items ?? []).filter(({ scope }) => scope.agentId === id)
  return (
    <section className="card">
      <header>
        <h2>Budget</h2>
        <Link href={`/usage?agentId=${id}`}>Open usage</Link>
      </header>
      <div className="in stack">
        {may("insights:read") ? (
          <Answered asked={overview} rows={1}>
            {({ totals }) => (
              <p>
                <strong>{usd(totals.costUsd)}</strong>{" "}
                <span className="soft">in 30 days with {count(totals.requests)} requests</span>
              </p>
            )}
          </Answered>
        ) : (
          <p className="soft">
            Its spend needs the capability <code>insights:read</code>.
          </p>
        )}
        {own.map((cap) => (
          <CapBar key={`${cap.capId}`} cap={cap} />
        ))}
        {caps.data !== undefined && own.length === 0 ? (
          <p className="soft">No cap counts this agent by itself; those of its tenant hold.</p>
        ) : null}
      </div>
    </section>
  )
}

const Identity = ({ agent }: { readonly agent: Agent }) => (
  <div className="grid">
    <section className="card span-8">
      <header>
        <h2>Identity</h2>
      </header>
      <dl className="facts in">
        <Fact title="Id">
          <code>{agent.id}</code>
        </Fact>
        <Fact title="Owner">{agent.ownerUserId ?? <span className="soft">none</span>}</Fact>
        <Fact title="Tenant">
          <TenantName id={agent.tenantId} />
        </Fact>
        <Fact title="Description">
          {agent.description === "" ? <span className="soft">none</span> : agent.description}
        </Fact>
        <Fact title="May be granted">
          {agent.scopeCeiling.length === 0 ? (
            <span className="soft">nothing</span>
          ) : (
            <span className="chips">
              {agent.scopeCeiling.map((scope) => (
                <span key={scope} className="chip">
                  {scope}
                </span>
              ))}
            </span>
          )}
        </Fact>
        <Fact title="Longest life of a token">{count(agent.maxCredentialTtlSeconds / 60)} minutes</Fact>
        <Fact title="One call may reserve">
          {agent.perTurnBudget === null ? (
            <span className="soft">as much as its caps allow</span>
          ) : (
            usd(agent.perTurnBudget)
          )}
        </Fact>
        <Fact title="Task types">
          {agent.allowedTaskTypes.length === 0 ? <span className="soft">any</span> : agent.allowedTaskTypes.join(", ")}
          {agent.defaultTaskType === null ? null : <small> ({agent.defaultTaskType} when none is named)</small>}
        </Fact>
        <Fact title="Last seen">
          <Moment at={agent.lastSeenAt} />
        </Fact>
        <Fact title="Registered">
          <Moment at={agent.createdAt} style="full" /> by {agent.createdBy}
        </Fact>
        {agent.expiresAt === null ? null : (
          <Fact title="Ends">
            <Moment at={agent.expiresAt} style="full" />
          </Fact>
        )}
      </dl>
    </section>
    <div className="span-4">
      <Spend id={agent.id} />
    </div>
  </div>
)

type Shown =
  | { readonly what: "edit" | "issue" | "suspend" | "activate" | "retire" | "key" | "delegate" }
  | { readonly what: "token"; readonly token: Answer<"agentCredentials.issue"> }
  | { readonly what: "private"; readonly pem: string }
  | { readonly what: "rotate" | "revokeKey"; readonly key: Key }
  | { readonly what: "revokeCredential"; readonly credential: Credential }
  | { readonly what: "revokeDelegation"; readonly delegation: Delegation }

interface Part {
  readonly agent: Agent
  readonly show: (shown: Shown) => void
}

const Credentials = ({ agent, show }: Part) => (
  <List
    name="agentCredentials.list"
    input={{ params: { id: agent.id } }}
    label="Tokens"
    keyOf={({ id }) => id}
    rowClass={({ status }) => (status === "active" ? undefined : "gone")}
    empty={
      <Empty title="No token was issued yet">
        <p>The agent gets them with its key, or you issue one here.</p>
      </Empty>
    }
    columns={[
      { title: "Id", cell: ({ id }) => <code title={id}>{id.slice(-12)}</code> },
      { title: "Status", cell: ({ status }) => <Status of={status} /> },
      { title: "Subject", cell: ({ subject }) => <code title={subject}>{subject.replace(agent.id, "itself")}</code> },
      { title: "Scopes", cell: ({ scopes }) => <ScopeChips scopes={scopes} /> },
      {
        title: "Issued",
        cell: ({ issuedAt, issuedBy, keyId }) => (
          <>
            <Moment at={issuedAt} /> <small>{keyId === null ? `by ${issuedBy}` : "with a key"}</small>
          </>
        )
      },
      { title: "Ends", cell: ({ expiresAt }) => <Moment at={expiresAt} /> },
      {
        title: "",
        isNumber: true,
        cell: (credential) => (
          <Act
            kind="bad"
            needs="agents:write"
            unless={credential.status === "active" ? undefined : `The token is ${credential.status}`}
            onClick={() => show({ what: "revokeCredential", credential })}
          >
            Revoke
          </Act>
        )
      }
    ]}
  />
)

const Keys = ({ agent, show }: Part) => (
  <List
    name="agentKeys.list"
    input={{ params: { id: agent.id } }}
    label="Keys"
    order="-createdAt"
    keyOf={({ id }) => id}
    rowClass={({ status }) => (status === "active" || status === "pending" ? undefined : "gone")}
    empty={
      <Empty title="The agent has no key">
        <p>With a key of its own it gets tokens by itself, and no secret has to be passed on.</p>
      </Empty>
    }
    columns={[
      { title: "Key id", cell: ({ kid }) => <strong>{kid}</strong> },
      { title: "Status", cell: ({ status }) => <Status of={status} /> },
      { title: "Algorithm", cell: ({ algorithm }) => algorithm },
      { title: "Thumbprint", cell: ({ thumbprint }) => <code title={thumbprint}>{thumbprint.slice(0, 12)}…</code> },
      { title: "Valid from", cell: ({ validFrom }) => <Moment at={validFrom} style="date" /> },
      { title: "Valid until", cell: ({ validUntil }) => <Moment at={validUntil} style="date" /> },
      {
        title: "",
        isNumber: true,
        cell: (key) => {
          const unless = key.status === "active" || key.status === "pending" ? undefined : `The key is ${key.status}`
          return (
            <span className="acts">
              <Act
                needs="agents:write"
                unless={unless ?? inactive(agent)}
                onClick={() => show({ what: "rotate", key })}
              >
                Rotate
              </Act>
              <Act kind="bad" needs="agents:write" unless={unless} onClick={() => show({ what: "revokeKey", key })}>
                Revoke
              </Act>
            </span>
          )
        }
      }
    ]}
  />
)

const Delegations = ({ agent, show }: Part) => (
  <List
    name="delegations.list"
    input={{ params: { id: agent.id } }}
    label="Delegations"
    order="-createdAt"
    keyOf={({ id }) => id}
    rowClass={({ status }) => (status === "active" ? undefined : "gone")}
    empty={
      <Empty title="The agent acts only for itself">
        <p>A delegation lets it exchange the tokens of an account or of another agent.</p>
      </Empty>
    }
    columns={[
      {
        title: "For",
        cell: ({ subject, subjectType }) => (
          <>
            {subjectType} <code title={subject}>{subject.length > 40 ? `…${subject.slice(-36)}` : subject}</code>
          </>
        )
      },
      { title: "Status", cell: ({ status }) => <Status of={status} /> },
      { title: "Scopes", cell: ({ scopes }) => <ScopeChips scopes={scopes} /> },
      { title: "Reason", cell: ({ reason }) => reason ?? <span className="soft">none</span> },
      { title: "Used", sort: "lastUsedAt", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} /> },
      { title: "Expires", cell: ({ expiresAt }) => <Moment at={expiresAt} style="date" /> },
      {
        title: "",
        isNumber: true,
        cell: (delegation) => (
          <Act
            kind="bad"
            needs="agents:write"
            unless={delegation.status === "active" ? undefined : `The delegation is ${delegation.status}`}
            onClick={() => show({ what: "revokeDelegation", delegation })}
          >
            Revoke
          </Act>
        )
      }
    ]}
  />
)

const Dialogs = ({
  agent,
  onClose,
  show,
  shown
}: Part & { readonly onClose: () => void; readonly shown: Shown | undefined }) => {
  const params = { id: agent.id }
  switch (shown?.what) {
    case undefined:
      return null
    case "edit":
      return <Edit agent={agent} onClose={onClose} />
    case "issue":
      return <Issue agent={agent} onClose={onClose} onMade={(token) => show({ what: "token", token })} />
    case "token":
      return (
        <SecretDialog title={`Token of ${agent.name}`} what="Token" secret={shown.token.accessToken} onClose={onClose}>
          <p>
            It ends <Moment at={shown.token.expiresAt} />. Send it as <code>Authorization: Bearer …</code>.
          </p>
        </SecretDialog>
      )
    case "key":
    case "rotate":
      return (
        <RegisterKey
          agent={agent}
          instead={shown.what === "rotate" ? shown.key : undefined}
          onClose={onClose}
          onMade={(made) => show({ what: "private", pem: made })}
        />
      )
    case "private":
      return (
        <SecretDialog
          title={`Private key of ${agent.name}`}
          what="Private key"
          secret={shown.pem}
          note="Copy it now: it was made in this browser, is shown this once, and is stored nowhere."
          onClose={onClose}
        />
      )
    case "delegate":
      return <Delegate agent={agent} onClose={onClose} />
    case "suspend":
      return (
        <Confirm
          name="agents.update"
          input={{ params, body: { status: "suspended" } }}
          title={`Suspend ${agent.name}`}
          action="Suspend the agent"
          done={`${agent.name} is suspended`}
          onClose={onClose}
        >
          <p>Every token of the agent is refused at once, and it gets no new one, until it is activated again.</p>
        </Confirm>
      )
    case "activate":
      return (
        <Confirm
          name="agents.update"
          input={{ params, body: { status: "active" } }}
          title={`Activate ${agent.name}`}
          action="Activate the agent"
          kind="main"
          done={`${agent.name} is active`}
          onClose={onClose}
        >
          <p>Its tokens that have not ended are accepted again, and it gets new ones.</p>
        </Confirm>
      )
    case "retire":
      return (
        <Confirm
          name="agents.retire"
          input={{ params }}
          title={`Retire ${agent.name}`}
          action="Retire the agent"
          done={`${agent.name} is retired`}
          onClose={onClose}
        >
          <p>
            The agent, its keys, its delegations and all its tokens end for good. What it did stays in the audit log,
            and its name is free again.
          </p>
        </Confirm>
      )
    case "revokeKey":
      return (
        <Confirm
          name="agentKeys.revoke"
          input={{ params: { ...params, keyId: shown.key.id } }}
          title={`Revoke the key ${shown.key.kid}`}
          action="Revoke the key"
          done={`The key ${shown.key.kid} is revoked`}
          onClose={onClose}
        >
          <p>The agent gets no new token with it. Tokens that it got before go on until they end.</p>
        </Confirm>
      )
    case "revokeCredential":
      return (
        <Confirm
          name="agentCredentials.revoke"
          input={{ params: { credentialId: shown.credential.id } }}
          title={`Revoke the token ${shown.credential.id.slice(-12)}`}
          action="Revoke the token"
          done="The token is revoked"
          onClose={onClose}
        >
          <p>It is refused at once, and so is everything that was exchanged from it.</p>
        </Confirm>
      )
    case "revokeDelegation":
      return (
        <Confirm
          name="delegations.revoke"
          input={{ params: { ...params, grantId: shown.delegation.id } }}
          title="Revoke the delegation"
          action="Revoke the delegation"
          done="The delegation is revoked"
          onClose={onClose}
        >
          <p>
            {agent.name} no longer acts for <code>{shown.delegation.subject}</code>, and every token that it got for
            that ends.
          </p>
        </Confirm>
      )
  }
}

/** One agent: who it is, what it may do, and what it holds. */
export default function AgentPage() {
  const { id = "" } = useParams()
  const [search] = useSearchParams()
  const tab = search.get("tab") ?? "identity"
  const asked = useCall("agents.get", { params: { id } })
  const [shown, show] = useState<Shown>()
  return (
    <Answered asked={asked} rows={8}>
      {(agent) => {
        const retired = agent.status === "retired" ? "The agent is retired" : undefined
        return (
          <Page
            title={agent.name}
            lead={
              <>
                <Status of={agent.status} /> Agent of {agent.ownerUserId ?? "no owner"}
              </>
            }
            actions={
              <>
                <CopyCurl name="agents.get" input={{ params: { id } }} />
                <Copy text={agent.id} what="Id">
                  Copy id
                </Copy>
                <Act needs="agents:write" unless={retired} onClick={() => show({ what: "edit" })}>
                  Change
                </Act>
                {agent.status === "suspended" ? (
                  <Act needs="agents:write" onClick={() => show({ what: "activate" })}>
                    Activate
                  </Act>
                ) : (
                  <Act kind="bad" needs="agents:write" unless={retired} onClick={() => show({ what: "suspend" })}>
                    Suspend
                  </Act>
                )}
                <Act kind="bad" needs="agents:write" unless={retired} onClick={() => show({ what: "retire" })}>
                  Retire
                </Act>
              </>
            }
          >
            <div className="bar-of-tabs">
              <TabLinks
                label="About the agent"
                tabs={[
                  ["identity", "Identity and budget"],
                  ["tokens", "Tokens"],
                  ["keys", "Keys"],
                  ["delegations", "Delegations"]
                ]}
              />
              {tab === "tokens" ? (
                <Act icon="plus" needs="agents:write" unless={inactive(agent)} onClick={() => show({ what: "issue" })}>
                  Issue a token
                </Act>
              ) : tab === "keys" ? (
                <Act icon="plus" needs="agents:write" unless={inactive(agent)} onClick={() => show({ what: "key" })}>
                  Register a key
                </Act>
              ) : tab === "delegations" ? (
                <Act
                  icon="plus"
                  needs="agents:write"
                  unless={inactive(agent)}
                  onClick={() => show({ what: "delegate" })}
                >
                  Delegate
                </Act>
              ) : null}
            </div>
            {tab === "tokens" ? (
              <Credentials agent={agent} show={show} />
            ) : tab === "keys" ? (
              <Keys agent={agent} show={show} />
            ) : tab === "delegations" ? (
              <Delegations agent={agent} show={show} />
            ) : (
              <Identity agent={agent} />
            )}
            <Dialogs agent={agent} show={show} shown={shown} onClose={() => show(undefined)} />
          </Page>
        )
      }}
    </Answered>
  )
}
