import { type ReactNode } from "react"
import { useLocation } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Copy, type Of, Tabs, useFirst } from "../../kit/actions.tsx"
import { Moment } from "../../kit/format.tsx"
import { ConfirmAct, formOf } from "../../kit/forms/operation.tsx"
import { ScopeChips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { useApplications } from "../../kit/names/names.tsx"
import { TenantField, useTenantColumn, useTenantFilter } from "../../kit/names/tenants.tsx"
import { NameLines, Tag } from "../../kit/parts.tsx"

type Key = Row<"apiKeys.list">
type NewKey = Answer<"apiKeys.create">

const write = "api-keys:write"
const create = formOf("apiKeys.create")
const rotate = formOf("apiKeys.rotate")

/** The same call for the clients that people use, with the key and this service's address. */
const Snippets = ({ secret }: { readonly secret: string }) => {
  const base = location.origin
  const { data: models } = useCall("llm.models", {})
  // A fresh installation has a model that echoes, and needs no account with a provider.
  const model = models?.find(({ kind }) => kind === "chat")?.id ?? "loopback-1"
  const snippets = [
    [
      "curl",
      `curl ${base}/v1/chat/completions \\\n  -H "Authorization: Bearer ${secret}" -H "Content-Type: application/json" \\\n  -d '{"model":"${model}","messages":[{"role":"user","content":"Hello"}]}'`
    ],
    [
      "OpenAI SDK",
      `// npm install openai\nimport OpenAI from "openai"\n\nconst client = new OpenAI({ baseURL: "${base}/v1", apiKey: "${secret}" })\nconst answer = await client.chat.completions.create({\n  model: "${model}",\n  messages: [{ role: "user", content: "Hello" }]\n})\nconsole.log(answer.choices[0].message.content)`
    ],
    [
      "Anthropic SDK",
      `// npm install @anthropic-ai/sdk\nimport Anthropic from "@anthropic-ai/sdk"\n\nconst client = new Anthropic({ baseURL: "${base}", apiKey: "${secret}" })\nconst answer = await client.messages.create({\n  model: "${model}",\n  max_tokens: 256,\n  messages: [{ role: "user", content: "Hello" }]\n})\nconsole.log(answer.content[0].text)`
    ]
  ] as const
  return (
    <Tabs
      label="Ready calls"
      tabs={snippets.map(([title, code]) => [
        title,
        <div key={title} className="stack">
          <pre tabIndex={0}>{code}</pre>
          <div>
            <Copy text={code} what={title} />
          </div>
        </div>
      ])}
    />
  )
}

const Made = ({ made, onKept }: { readonly made: NewKey; readonly onKept?: () => void }) => (
  <SecretDialog title={`Key ${made.name}`} what="API key" secret={made.key} onClose={onKept}>
    <Snippets secret={made.key} />
  </SecretDialog>
)

interface OfKey {
  readonly children?: ReactNode
  readonly scopes?: ReadonlyArray<string>
}

const Fields = ({ children, scopes = [] }: OfKey) => (
  <>
    <create.Field label="Name" name="name" placeholder="nightly-import" hint="Who uses it, so that you know it again" />
    {children}
    <ScopePicker initial={scopes} />
    <create.Field label="Expires" name="expiresAt" hint="Local time; empty for a key that lasts until it is revoked" />
  </>
)

const Create = () => (
  <create.Make
    label="Make a key"
    title="Make an API key"
    action="Make the key"
    wide
    needs={write}
    shows={(made) => <Made made={made} />}
  >
    <Fields>
      <TenantField none="None: of the whole installation" />
    </Fields>
  </create.Make>
)

/** The first key, which leads on to what comes after it. */
const CreateFirst = ({ onClose }: { readonly onClose: () => void }) => {
  const [, go] = useLocation()
  return (
    <create.Dialog
      title="Make the first API key"
      action="Make the key"
      wide
      onClose={onClose}
      shows={(made) => <Made made={made} onKept={() => go("/")} />}
    >
      <p>
        Programs use a key to call the API and the models. This one may call models; change what it may do as you like.
      </p>
      <Fields scopes={["llm:complete", "llm:embed", "llm:read"]} />
    </create.Dialog>
  )
}

const ended = ({ status }: Key) => (status === "active" ? undefined : `The key is ${status}`)

const Rotate = ({ of }: Of<Key>) => (
  <rotate.Act
    title={`Rotate ${of.name}`}
    action="Rotate"
    needs={write}
    unless={ended(of)}
    input={{ params: { id: of.id } }}
    shows={(made) => <Made made={made} />}
  >
    <p>
      A new key with the same rights takes the place of <code>{of.start}…</code>. The old one works until the grace is
      over.
    </p>
    <rotate.Field label="Grace in hours" name="graceSeconds" unit={3600} defaultValue={24} required />
  </rotate.Act>
)

const Revoke = ({ of }: Of<Key>) => (
  <ConfirmAct name="apiKeys.revoke" of={of} verb="Revoke" what="key" needs={write} unless={ended(of)}>
    Every program that uses <code>{of.start}…</code> is refused within a second. A revoked key cannot be used again.
  </ConfirmAct>
)

const tones = { active: "ok", revoked: "", expired: "warn" } as const

/** Keys of programs: made, rotated and revoked. */
export default function ApiKeys() {
  useFirst((onClose) => <CreateFirst onClose={onClose} />)
  return (
    <ListPage
      title="API keys"
      lead="What programs call this service with. A key can do what its scopes say, and no more than who made it."
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
          cell: ({ name, start }) => <NameLines name={name} detail={<code>{start}…</code>} />
        },
        { title: "Status", cell: ({ status }) => <Tag tone={tones[status]}>{status}</Tag> },
        ...useTenantColumn(),
        { title: "Scopes", cell: ({ scopes }) => <ScopeChips scopes={scopes} /> },
        ...useSpendColumn("api-key"),
        { title: "Used", sort: "lastUsedAt", cell: ({ lastUsedAt }) => <Moment at={lastUsedAt} /> },
        {
          title: "Made",
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
      acts={[Rotate, Revoke]}
    />
  )
}
