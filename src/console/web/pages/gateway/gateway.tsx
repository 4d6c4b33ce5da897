import { useMutation } from "@tanstack/react-query"
import { call } from "../../api/client.ts"
import { useCall, useChange, usePage } from "../../api/hooks.ts"
import { type Answer, type Payload, type Row } from "../../api/operations.ts"
import { Act, CopyCurl, type Of } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { count, milliseconds, Moment } from "../../kit/format.tsx"
import { Form, SelectField, TextArea, textOf, TextField } from "../../kit/forms/form.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { List } from "../../kit/lists/list.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { PrincipalName } from "../../kit/names/names.tsx"
import { Page } from "../../kit/page.tsx"
import { Answered, Card, Fault, Soft, Tag } from "../../kit/parts.tsx"
import { Loading } from "../../kit/states.tsx"
import { Compare } from "../../kit/texts/diff.tsx"
import { useCan } from "../../shell/session.tsx"

type Health = Answer<"llm.health">["providers"][number]
type Version = Row<"llmAdmin.versions">
type Target = Payload<"llm.testProvider">

const put = formOf("llmAdmin.putConfiguration")
const rollback = formOf("llmAdmin.rollback")

type Dialect = Extract<Target, { readonly dialect: string }>["dialect"]

const dialects: Readonly<Record<Dialect, string>> = { openai: "OpenAI", anthropic: "Anthropic", gemini: "Google" }
const statusTones = { healthy: "ok", degraded: "warn", unhealthy: "bad" } as const

const credentialIn = (data: FormData) => ({ headers: { "x-api-key": textOf(data, "serviceKey") ?? "" } })

/** Where to ask: a configured provider, or an address with a key that stays in this page. */
const targetOf = (data: FormData, providerId: string | undefined): Target => {
  const model = textOf(data, "model")
  const asked = model === undefined ? {} : { model }
  if (providerId !== undefined) return { providerId, ...asked }
  const apiKey = textOf(data, "apiKey")
  return {
    dialect: (textOf(data, "dialect") ?? "openai") as Dialect,
    baseUrl: textOf(data, "baseUrl") ?? "",
    ...(apiKey === undefined ? {} : { apiKey }),
    ...asked
  }
}

const TestResult = ({ result }: { readonly result: Answer<"llm.testProvider"> }) => (
  <div role="status" className="note">
    <Tag tone={result.ok ? "ok" : "bad"}>{result.ok ? "It answers" : "It fails"}</Tag>
    <span>
      {result.detail} {count(result.latencyMs)} ms{result.status === null ? "" : `, status ${result.status}`}.
    </span>
  </div>
)

/** Tests a provider and lists its models; keys live in the form and nowhere else. */
const TestProvider = ({ providerId }: { readonly providerId?: string }) => {
  const ask = useMutation({
    mutationFn: async ({ data, lists = false }: { readonly data: FormData; readonly lists?: boolean }) => {
      const input = { body: targetOf(data, providerId), ...credentialIn(data) }
      return lists ? { models: await call("llm.listModels", input) } : { tested: await call("llm.testProvider", input) }
    }
  })
  return (
    <Dialog title={providerId === undefined ? "Test an address" : `Test ${providerId}`} wide>
      <Form
        cause={ask.error}
        onSubmit={(data) => ask.mutate({ data })}
        actions={
          <>
            <button
              type="button"
              className="btn"
              disabled={ask.isPending}
              onClick={(event) => {
                const { form } = event.currentTarget
                if (form?.reportValidity() === true) ask.mutate({ data: new FormData(form), lists: true })
              }}
            >
              List its models
            </button>
            <button type="submit" className="btn main" disabled={ask.isPending}>
              {ask.isPending ? "Asking …" : "Test"}
            </button>
          </>
        }
      >
        <p>It is asked for its list of models, which costs nothing.</p>
        {providerId === undefined ? (
          <>
            <div className="row2">
              <SelectField label="Speaks like" name="dialect" options={Object.entries(dialects)} />
              <TextField label="Base URL" name="baseUrl" type="url" required placeholder="https://api.openai.com/v1" />
            </div>
            <TextField
              label="The provider's key"
              name="apiKey"
              type="password"
              autoComplete="off"
              hint="Used for this test and forgotten with this dialog"
            />
          </>
        ) : null}
        <TextField label="Model" name="model" placeholder="any" hint="Whether the provider lists it" />
        <TextField
          label="Key of the service account, or one with llm:admin"
          name="serviceKey"
          type="password"
          autoComplete="off"
          required
          hint="A test may use the keys of providers, so that a sign-in alone does not allow it. It is forgotten with this dialog"
        />
        {ask.data?.tested && <TestResult result={ask.data.tested} />}
        {ask.data?.models && (
          <Table
            label="Models of the provider"
            rows={ask.data.models}
            empty="It lists no model"
            columns={[
              { title: "Model", cell: ({ id }) => <code>{id}</code> },
              { title: "Owner", cell: ({ ownedBy }) => ownedBy },
              { title: "Made", cell: ({ createdAt }) => createdAt && <Moment at={createdAt} style="date" /> }
            ]}
          />
        )}
      </Form>
    </Dialog>
  )
}

const Providers = () => {
  const health = useCall("llm.health", {}, { everySeconds: 30 })
  return (
    <Card
      title="Providers"
      beside={health.data && <Tag tone={statusTones[health.data.status]}>{health.data.status}</Tag>}
    >
      <Answered asked={health}>
        {({ providers }) => (
          <Table
            label="Providers"
            rows={providers}
            columns={[
              { title: "Provider", cell: ({ id }) => <strong>{id}</strong> },
              { title: "Speaks like", cell: ({ dialect }) => dialect },
              { title: "Reachable", cell: (provider) => <Reachable provider={provider} /> },
              { title: "Latency", isNumber: true, cell: ({ latencyMs }) => milliseconds(latencyMs) },
              { title: "Checked", cell: ({ checkedAt }) => <Moment at={checkedAt} /> },
              { title: "Last error", cell: ({ lastError }) => <Soft>{lastError ?? "none"}</Soft> }
            ]}
            acts={({ id }) => <Act opens={<TestProvider providerId={id} />}>Test</Act>}
          />
        )}
      </Answered>
    </Card>
  )
}

const Reachable = ({ provider: { breaker, reachable } }: { readonly provider: Health }) => (
  <Tag tone={reachable === null ? "" : reachable && breaker === "closed" ? "ok" : "bad"}>
    {reachable === null ? "not asked yet" : reachable ? "yes" : "no"}
    {breaker === "closed" ? "" : `, breaker ${breaker}`}
  </Tag>
)

/** A version's document, indented. */
const indented = (content: string): string => {
  try {
    return JSON.stringify(JSON.parse(content), null, 2)
  } catch {
    return content
  }
}

const Shown = ({ of: { content, version } }: Of<Version>) => (
  <Dialog title={`Version ${version}`} wide>
    <div className="in">
      <pre tabIndex={0}>{indented(content)}</pre>
    </div>
  </Dialog>
)

/** The newest version, which a change is based on. */
const useNewest = (): Version | undefined =>
  usePage("llmAdmin.versions", { input: { query: { limit: 1 } } }, { enabled: useCan()("llm:admin") }).data?.items[0]

const Rollback = ({ of: version }: Of<Version>) => {
  const newest = useNewest() ?? version
  return (
    <rollback.Dialog
      input={{ headers: { "if-match": `"${newest.version}"` } }}
      body={{ version: version.version }}
      title={`Roll back to version ${version.version}`}
      action="Roll back"
      done={`The configuration of version ${version.version} runs`}
      wide
    >
      <p>
        Version {newest.version} stops running, and a version {newest.version + 1} with the content of version{" "}
        {version.version} runs at once. No version is lost. This is what changes:
      </p>
      <Compare
        id={`gateway ${newest.version} ${version.version}`}
        label={`From version ${newest.version} to version ${version.version}`}
        before={indented(newest.content)}
        after={indented(version.content)}
      />
    </rollback.Dialog>
  )
}

/** The document of the form; fails where it is none. */
const documentIn = (data: FormData): Payload<"llmAdmin.putConfiguration"> => {
  try {
    return JSON.parse(textOf(data, "document") ?? "")
  } catch (cause) {
    throw new Error(`It is not JSON: ${cause instanceof Error ? cause.message : ""}`, { cause })
  }
}

const Edit = () => {
  const newest = useNewest()
  const { data: document } = useCall("llmAdmin.getConfiguration", {})
  return (
    <put.Dialog
      title="Change the gateway's configuration"
      action="Save and run"
      done="The configuration runs"
      wide
      input={newest === undefined ? {} : { headers: { "if-match": `"${newest.version}"` } }}
      body={(_, data) => documentIn(data)}
      isDisabled={document === undefined}
    >
      <p>
        It is checked as a whole before it runs. A key of a provider that is written here is encrypted, and never shown
        again.
      </p>
      {document === undefined ? (
        <Loading />
      ) : (
        <TextArea
          label="Document"
          name="document"
          member=""
          className="code"
          rows={20}
          spellCheck={false}
          defaultValue={JSON.stringify(document, null, 2)}
        />
      )}
    </put.Dialog>
  )
}

const Versions = () => (
  <>
    <h2>Configuration</h2>
    <List
      name="llmAdmin.versions"
      input={{ query: { limit: 20 } }}
      label="Versions of the configuration"
      keyOf={({ version }) => String(version)}
      empty={["No version was written yet", "What runs comes from the environment. A change makes version 1."]}
      columns={[
        { title: "Version", cell: ({ version }) => <strong>{version}</strong> },
        { title: "Written", cell: ({ createdAt }) => <Moment at={createdAt} style="full" /> },
        { title: "By", cell: ({ createdBy }) => <PrincipalName name={createdBy} /> },
        {
          title: "From",
          cell: ({ restoredFrom }) => (restoredFrom === undefined ? null : `version ${restoredFrom}, rolled back`)
        },
        { title: "Size", isNumber: true, cell: ({ content }) => `${count(content.length)} characters` }
      ]}
      acts={(version) => (
        <>
          <Act opens={<Shown of={version} />}>Show</Act>
          <Act needs="llm:admin" opens={<Rollback of={version} />}>
            Roll back
          </Act>
        </>
      )}
    />
  </>
)

/** Providers with their health, and the gateway's configuration with its versions. */
export default function Gateway() {
  const may = useCan()
  const reload = useChange("llmAdmin.reload", "The configuration was read again")
  return (
    <Page
      title="Providers"
      lead="Where calls go, how the providers are, and the configuration that runs."
      actions={
        <>
          <CopyCurl name="llm.health" input={{}} />
          <Act opens={<TestProvider />}>Test an address</Act>
          <Act needs="llm:admin" onClick={() => reload.mutate({})}>
            Read keys again
          </Act>
          <Act kind="main" needs="llm:admin" opens={<Edit />}>
            Change the configuration
          </Act>
        </>
      }
    >
      <Fault cause={reload.error} />
      <Providers />
      {may("llm:admin") ? <Versions /> : null}
    </Page>
  )
}
