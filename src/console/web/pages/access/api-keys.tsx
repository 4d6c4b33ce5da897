import { useEffect } from "react"
import { useLocation, useSearchParams } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, Copy, Tabs } from "../../kit/actions.tsx"
import { useDialogs } from "../../kit/dialog.tsx"
import { Moment } from "../../kit/format.tsx"
import { Confirm, formOf } from "../../kit/forms/operation.tsx"
import { ScopeChips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { useApplications } from "../../kit/names/names.tsx"
import { TenantField, useTenantColumn, useTenantFilter } from "../../kit/names/tenants.tsx"
import { Tag } from "../../kit/parts.tsx"

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
  <SecretDialog title={`Key ${made.name}`} what="API key" secret={made.key} {...(onKept && { onClose: onKept })}>
    <Snippets secret={made.key} />
  </SecretDialog>
)

const Create = () => {
  const { open } = useDialogs()
  return (
    <create.Dialog title="Make an API key" action="Make the key" wide onDone={(made) => open(<Made made={made} />)}>
      <KeyName />
      <TenantField none="None: of the whole installation" />
      <ScopePicker />
      <Expiry />
    </create.Dialog>
  )
}

const KeyName = () => (
  <create.Field label="Name" name="name" placeholder="nightly-import" hint="Who uses it, so that you know it again" />
)

const Expiry = () => (
  <create.Field label="Expires" name="expiresAt" hint="Local time; empty for a key that lasts until it is revoked" />
)

/** The first key, which leads on to what comes after it. */
const CreateFirst = ({ onClose }: { readonly onClose: () => void }) => {
  const [, go] = useLocation()
  const { open } = useDialogs()
  return (
    <create.Dialog
      title="Make the first API key"
      action="Make the key"
      wide
      onClose={onClose}
      onDone={(made) => open(<Made made={made} onKept={() => go("/")} />)}
    >
      <p>
        Programs use a key to call the API and the models. This one may call models; change what it may do as you like.
      </p>
      <KeyName />
      <ScopePicker initial={["llm:complete", "llm:embed", "llm:read"]} />
      <Expiry />
    </create.Dialog>
  )
}

const Rotate = ({ of }: { readonly of: Key }) => {
  const { open } = useDialogs()
  return (
    <rotate.Dialog
      title={`Rotate ${of.name}`}
      action="Rotate"
      input={{ params: { id: of.id } }}
      onDone={(made) => open(<Made made={made} />)}
    >
      <p>
        A new key with the same rights takes the place of <code>{of.start}…</code>. The old one works until the grace is
        over.
      </p>
      <rotate.Field label="Grace in hours" name="graceSeconds" unit={3600} defaultValue={24} required />
    </rotate.Dialog>
  )
}

const Revoke = ({ of }: { readonly of: Key }) => (
  <Confirm
    name="apiKeys.revoke"
    input={{ params: { id: of.id } }}
    title={`Revoke ${of.name}`}
    action="Revoke the key"
    done={`${of.name} is revoked`}
  >
    <p>
      Every program that uses <code>{of.start}…</code> is refused within a second. A revoked key cannot be used again.
    </p>
  </Confirm>
)

const tones = { active: "ok", revoked: "", expired: "warn" } as const

/** Keys of programs: made, rotated and revoked. */
export default function ApiKeys() {
  const [search, setSearch] = useSearchParams()
  const isFirst = search.get("create") === "first"
  const { close, open } = useDialogs()
  useEffect(() => {
    const onClose = () => {
      close()
      setSearch({}, { replace: true })
    }
    if (isFirst) open(<CreateFirst onClose={onClose} />)
  }, [])
  return (
    <ListPage
      title="API keys"
      lead="What programs call this service with. A key can do what its scopes say, and no more than who made it."
      actions={
        <Act kind="main" icon="plus" needs={write} opens={<Create />}>
          Make a key
        </Act>
      }
      name="apiKeys.list"
      filters={[{ key: "applicationId", label: "Application", options: useApplications() }, useTenantFilter()]}
      searches="Name, start of the key or id"
      rowClass={({ status }) => (status === "active" ? undefined : "gone")}
      empty={["There is no key yet", "A key lets a program call the API and the models."]}
      columns={[
        {
          title: "Name",
          sort: "name",
          cell: ({ name, start }) => (
            <span className="lines">
              <strong className="cut" title={name}>
                {name}
              </strong>
              <code>{start}…</code>
            </span>
          )
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
              {expiresAt === null ? null : (
                <small>
                  until <Moment at={expiresAt} style="date" />
                </small>
              )}
            </span>
          )
        }
      ]}
      acts={(key) => {
        const unless = key.status === "active" ? undefined : `The key is ${key.status}`
        return (
          <>
            <Act needs={write} unless={unless} opens={<Rotate of={key} />}>
              Rotate
            </Act>
            <Act needs={write} unless={unless} kind="bad" opens={<Revoke of={key} />}>
              Revoke
            </Act>
          </>
        )
      }}
    />
  )
}
