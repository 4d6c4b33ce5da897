import { useState } from "react"
import { useLocation, useSearchParams } from "wouter"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, Confirm, Copy, FormActions, Tabs } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { Form, instantOf, numberOf, textOf, TextField } from "../../kit/forms/form.tsx"
import { Moment } from "../../kit/format.tsx"
import { Choice, useFilters } from "../../kit/lists/filters.tsx"
import { ListPage } from "../../kit/lists/list.tsx"
import { useSpendColumn } from "../../kit/lists/spend.tsx"
import { useApplications } from "../../kit/names/names.tsx"
import { TenantChoice, TenantField, useTenantColumn } from "../../kit/names/tenants.tsx"
import { ScopeChips, ScopePicker } from "../../kit/forms/scopes.tsx"
import { SecretDialog } from "../../kit/forms/secret.tsx"
import { Empty } from "../../kit/states.tsx"

type Key = Row<"apiKeys.list">
type NewKey = Answer<"apiKeys.create">

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

const Create = ({
  isFirst,
  onClose,
  onMade
}: {
  readonly isFirst: boolean
  readonly onClose: () => void
  readonly onMade: (key: NewKey) => void
}) => {
  const create = useChange("apiKeys.create")
  const [scopes, setScopes] = useState<ReadonlyArray<string>>(isFirst ? ["llm:complete", "llm:embed", "llm:read"] : [])
  const submit = (data: FormData) => {
    const expiresAt = instantOf(data, "expiresAt")
    const tenantId = textOf(data, "tenantId")
    create.mutate(
      {
        body: {
          name: textOf(data, "name") ?? "",
          scopes,
          ...(expiresAt === undefined ? {} : { expiresAt }),
          ...(tenantId === undefined ? {} : { tenantId })
        }
      },
      { onSuccess: onMade }
    )
  }
  return (
    <Dialog title={isFirst ? "Make the first API key" : "Make an API key"} onClose={onClose} wide>
      <Form
        cause={create.error}
        onSubmit={submit}
        actions={<FormActions action="Make the key" isPending={create.isPending} onClose={onClose} />}
      >
        {isFirst ? (
          <p>
            Programs use a key to call the API and the models. This one may call models; change what it may do as you
            like.
          </p>
        ) : null}
        <TextField
          label="Name"
          name="name"
          required
          maxLength={100}
          placeholder="nightly-import"
          hint="Who uses it, so that you know it again"
        />
        {isFirst ? null : <TenantField none="None: of the whole installation" />}
        <ScopePicker scopes={scopes} onChange={setScopes} />
        <TextField
          label="Expires"
          name="expiresAt"
          type="datetime-local"
          hint="Local time; empty for a key that lasts until it is revoked"
        />
      </Form>
    </Dialog>
  )
}

const Rotate = ({
  of,
  onClose,
  onMade
}: {
  readonly of: Key
  readonly onClose: () => void
  readonly onMade: (key: NewKey) => void
}) => {
  const rotate = useChange("apiKeys.rotate")
  return (
    <Dialog title={`Rotate ${of.name}`} onClose={onClose}>
      <Form
        cause={rotate.error}
        onSubmit={(data) =>
          rotate.mutate(
            { params: { id: of.id }, body: { graceSeconds: (numberOf(data, "hours") ?? 24) * 3600 } },
            { onSuccess: onMade }
          )
        }
        actions={<FormActions action="Rotate" isPending={rotate.isPending} onClose={onClose} />}
      >
        <p>
          A new key with the same rights takes the place of <code>{of.start}…</code>. The old one works until the grace
          is over.
        </p>
        <TextField
          label="Grace in hours"
          member="graceSeconds"
          name="hours"
          type="number"
          min={0}
          max={168}
          defaultValue={24}
          required
        />
      </Form>
    </Dialog>
  )
}

type Shown =
  | { readonly what: "create" }
  | { readonly what: "rotate" | "revoke"; readonly key: Key }
  | { readonly what: "made"; readonly key: NewKey }

const tones = { active: "ok", revoked: "", expired: "warn" } as const

/** Keys of programs: made, rotated and revoked. */
export default function ApiKeys() {
  const [search, setSearch] = useSearchParams()
  const filters = useFilters(["applicationId", "tenantId"])
  const applications = useApplications()
  const ofTenant = useTenantColumn()
  const spend = useSpendColumn("api-key")
  const isFirst = search.get("create") === "first"
  const [shown, setShown] = useState<Shown | undefined>(isFirst ? { what: "create" } : undefined)
  const close = () => {
    setShown(undefined)
    if (isFirst) setSearch({}, { replace: true })
  }
  // The first key leads on to what comes after it.
  const [, go] = useLocation()
  const onKept = isFirst ? () => go("/") : close
  const onMade = (key: NewKey) => setShown({ what: "made", key })
  return (
    <ListPage
      title="API keys"
      lead="What programs call this service with. A key can do what its scopes say, and no more than who made it."
      actions={
        <Act kind="main" icon="plus" needs="api-keys:write" onClick={() => setShown({ what: "create" })}>
          Make a key
        </Act>
      }
      name="apiKeys.list"
      input={{ query: filters.values }}
      isFiltered={filters.isFiltered}
      filters={
        <>
          <Choice
            label="Application"
            value={filters.values.applicationId}
            options={applications}
            onChange={(id) => filters.set("applicationId", id)}
          />
          <TenantChoice value={filters.values.tenantId} onChange={(id) => filters.set("tenantId", id)} />
        </>
      }
      label="API keys"
      searches="Name, start of the key or id"
      keyOf={({ id }) => id}
      rowClass={({ status }) => (status === "active" ? undefined : "gone")}
      empty={
        <Empty title="There is no key yet">
          <p>A key lets a program call the API and the models.</p>
        </Empty>
      }
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
        { title: "Status", cell: ({ status }) => <span className={`tag ${tones[status]}`}>{status}</span> },
        ...ofTenant,
        { title: "Scopes", cell: ({ scopes }) => <ScopeChips scopes={scopes} /> },
        ...spend,
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
        },
        {
          title: "",
          isNumber: true,
          cell: (key) => {
            const unless = key.status === "active" ? undefined : `The key is ${key.status}`
            return (
              <span className="acts">
                <Act needs="api-keys:write" unless={unless} onClick={() => setShown({ what: "rotate", key })}>
                  Rotate
                </Act>
                <Act
                  needs="api-keys:write"
                  unless={unless}
                  kind="bad"
                  onClick={() => setShown({ what: "revoke", key })}
                >
                  Revoke
                </Act>
              </span>
            )
          }
        }
      ]}
    >
      {shown?.what === "create" ? <Create isFirst={isFirst} onClose={close} onMade={onMade} /> : null}
      {shown?.what === "rotate" ? <Rotate of={shown.key} onClose={close} onMade={onMade} /> : null}
      {shown?.what === "revoke" ? (
        <Confirm
          name="apiKeys.revoke"
          input={{ params: { id: shown.key.id } }}
          title={`Revoke ${shown.key.name}`}
          action="Revoke the key"
          done={`${shown.key.name} is revoked`}
          onClose={close}
        >
          <p>
            Every program that uses <code>{shown.key.start}…</code> is refused within a second. A revoked key cannot be
            used again.
          </p>
        </Confirm>
      ) : null}
      {shown?.what === "made" ? (
        <SecretDialog title={`Key ${shown.key.name}`} what="API key" secret={shown.key.key} onClose={onKept}>
          <Snippets secret={shown.key.key} />
        </SecretDialog>
      ) : null}
    </ListPage>
  )
}
