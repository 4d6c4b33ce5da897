import { useMutation } from "@tanstack/react-query"
import { call } from "../../api/client.ts"
import { useCall, useChange } from "../../api/hooks.ts"
import { type Answer, type Row } from "../../api/operations.ts"
import { Act, ButtonLink, CopyCurl, type Of } from "../../kit/actions.tsx"
import { Dialog } from "../../kit/dialog.tsx"
import { count, Cut, milliseconds, Moment, Usd } from "../../kit/format.tsx"
import { Form, textOf, TextField } from "../../kit/forms/form.tsx"
import { formOf } from "../../kit/forms/operation.tsx"
import { List } from "../../kit/lists/list.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { PrincipalName } from "../../kit/names/names.tsx"
import { Page } from "../../kit/page.tsx"
import { Answered, Card, Fault, Noted, Soft, Tag } from "../../kit/parts.tsx"
import { Compare } from "../../kit/texts/diff.tsx"
import { useCan } from "../../shell/session.tsx"
import { useConfiguration, type Version } from "./configuration.ts"
import { type Provider } from "./document.ts"
import { Edit } from "./edit.tsx"
import { inputPrice } from "./prices.ts"
import { ProviderDialog, RemoveDialog, TestResult } from "./provider-form.tsx"

type Health = Answer<"llm.health">["providers"][number]

const rollback = formOf("llmAdmin.rollback")

const statusTones = { healthy: "ok", degraded: "warn", unhealthy: "bad" } as const

const credentialIn = (data: FormData) => ({ headers: { "x-api-key": textOf(data, "serviceKey") ?? "" } })

/** Tests a configured provider and lists its models with its stored key, which takes more than a sign-in. */
const TestProvider = ({ of: providerId }: Of<string>) => {
  const ask = useMutation({
    mutationFn: async ({ data, lists = false }: { readonly data: FormData; readonly lists?: boolean }) => {
      const model = textOf(data, "model")
      const body = { providerId, ...(model === undefined ? {} : { model }) }
      const input = { body, ...credentialIn(data) }
      return lists ? { models: await call("llm.listModels", input) } : { tested: await call("llm.testProvider", input) }
    }
  })
  return (
    <Dialog title={`Test ${providerId}`} wide>
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
              List models
            </button>
            <button type="submit" className="btn main" disabled={ask.isPending}>
              {ask.isPending ? "Asking …" : "Test"}
            </button>
          </>
        }
      >
        <p>The test asks the provider for its list of models, which costs nothing.</p>
        <TextField label="Model" name="model" placeholder="any" hint="Whether the provider lists it" />
        <TextField
          label="Key of the service account, or one with llm:admin"
          name="serviceKey"
          type="password"
          autoComplete="off"
          required
          hint="The test uses the provider's stored key, so that a sign-in alone does not allow it. What you enter here is forgotten when this dialog closes"
        />
        {ask.data?.tested && <TestResult result={ask.data.tested} />}
        {ask.data?.models && (
          <Table
            label="Models of the provider"
            rows={ask.data.models}
            empty="It lists no models"
            columns={[
              { title: "Model", cell: ({ id }) => <code>{id}</code> },
              { title: "Owner", cell: ({ ownedBy }) => ownedBy },
              {
                title: "Input, 1 M tokens",
                isNumber: true,
                cell: ({ prices }) => prices && inputPrice(prices)
              },
              { title: "Created", cell: ({ createdAt }) => createdAt && <Moment at={createdAt} style="date" /> }
            ]}
          />
        )}
      </Form>
    </Dialog>
  )
}

/** Where the key of a provider comes from, which is never shown itself. */
const keyText = ({ apiKey }: Provider): string =>
  apiKey === undefined ? "none" : apiKey.startsWith("secret:") ? "stored, encrypted" : apiKey

const Providers = () => {
  const health = useCall("llm.health", {}, { everySeconds: 30 })
  const configured = useConfiguration()?.document.providers ?? []
  const configuredAs = (id: string) => configured.find((provider) => provider.id === id)
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
              {
                title: "Provider",
                cell: ({ dialect, id }) => (
                  <Noted value={<strong>{id}</strong>} note={configuredAs(id)?.baseUrl ?? dialect} isBelow />
                )
              },
              { title: "Reachable", cell: (provider) => <Reachable provider={provider} /> },
              { title: "Latency", isNumber: true, cell: ({ latencyMs }) => milliseconds(latencyMs) },
              { title: "Checked", cell: ({ checkedAt }) => <Moment at={checkedAt} /> },
              {
                title: "Last error",
                cell: ({ credential, lastError }) => <Soft>{credential?.lastError ?? lastError ?? "none"}</Soft>
              },
              ...(configured.length === 0
                ? []
                : [
                    {
                      title: "Key",
                      cell: ({ id }: Health) => {
                        const provider = configuredAs(id)
                        return provider && <Cut text={keyText(provider)} />
                      }
                    }
                  ])
            ]}
            acts={({ id }) => (
              <>
                <Act opens={<TestProvider of={id} />}>Test</Act>
                {configuredAs(id) === undefined ? null : (
                  <>
                    <Act
                      needs="llm:admin"
                      opens={<ProviderDialog of={id} />}
                      unless={
                        configuredAs(id)?.dialect === "loopback"
                          ? "It answers within the service; change it in the document"
                          : undefined
                      }
                    >
                      Change
                    </Act>
                    <Act kind="bad" needs="llm:admin" opens={<RemoveDialog of={id} />}>
                      Remove
                    </Act>
                  </>
                )}
              </>
            )}
          />
        )}
      </Answered>
    </Card>
  )
}

type BrokenBound = Row<"brokenBounds.list">

const Reachable = ({ provider: { breaker, reachable } }: { readonly provider: Health }) => (
  <Tag tone={reachable === null ? "" : reachable && breaker === "closed" ? "ok" : "bad"}>
    {reachable === null ? "not checked yet" : reachable ? "yes" : "no"}
    {breaker === "closed" ? "" : `, breaker ${breaker}`}
  </Tag>
)

const acknowledge = formOf("brokenBounds.update")

/** Lets a target take calls under hard caps again. */
const Acknowledge = ({ of: { chargedUsd, id, model, operation, provider, reservedUsd } }: Of<BrokenBound>) => (
  <acknowledge.Dialog
    input={{ params: { id } }}
    body={{ status: "acknowledged" }}
    title={`Acknowledge the charge of ${provider}`}
    action="Acknowledge"
    done={`${provider} takes calls of ${model} under hard caps again`}
  >
    <p>
      {provider} charged <Usd amount={chargedUsd} /> for a call of {model} ({operation}), of which{" "}
      <Usd amount={reservedUsd} /> were held. Until it is acknowledged, such calls are refused there under hard caps.
      Find out first why it was more: a price that is missing, a limit that the provider does not keep.
    </p>
    <acknowledge.Field name="reason" label="Reason" hint="The audit log keeps it" />
  </acknowledge.Dialog>
)

/** Charges above what was held for them, while they are not acknowledged. */
const BrokenBounds = () => {
  const asked = useCall("brokenBounds.list", { query: { status: "over" } }, { everySeconds: 30 })
  const items = asked.data?.items ?? []
  if (items.length === 0) return <Fault cause={asked.error} />
  return (
    <Card title="Charged more than was held" beside={<Tag tone="bad">refused under hard caps</Tag>}>
      <Table
        label="Charges above what was held"
        rows={items}
        keyOf={({ id }) => id}
        columns={[
          { title: "Provider", cell: ({ provider }) => provider },
          { title: "Model", cell: ({ model, operation }) => <Noted value={model} note={operation} /> },
          { title: "Held", isNumber: true, cell: ({ reservedUsd }) => <Usd amount={reservedUsd} /> },
          {
            title: "Charged",
            isNumber: true,
            cell: ({ chargedUsd, times }) => (
              <Noted value={<Usd amount={chargedUsd} />} note={times > 1 ? `and ${count(times - 1)} more` : null} />
            )
          },
          { title: "Since", cell: ({ brokenAt }) => <Moment at={brokenAt} style="full" /> }
        ]}
        acts={(bound) => (
          <>
            <ButtonLink href={`/requests/${bound.reservationId}`}>Request</ButtonLink>
            <Act needs="llm:admin" opens={<Acknowledge of={bound} />}>
              Acknowledge
            </Act>
          </>
        )}
      />
    </Card>
  )
}

/** A version's document, indented. */
const indented = (content: string): string => {
  try {
    return JSON.stringify(JSON.parse(content), null, 2)
  } catch {
    return content
  }
}

/** A version: what it changed, and its document. */
const Shown = ({ of: { content, version } }: Of<Version>) => {
  const newest = useCall("llmAdmin.versions", { query: { limit: 200 } })
  const text = indented(content)
  return (
    <Dialog title={`Version ${version}`} wide>
      <div className="in stack">
        <Answered asked={newest} rows={3}>
          {(versions) => {
            const before = versions.find((one) => one.version < version)
            return before === undefined ? null : (
              <>
                <h3>Changes from version {before.version}</h3>
                <Compare
                  id={`gateway ${before.version} ${version}`}
                  label={`From version ${before.version} to version ${version}`}
                  before={indented(before.content)}
                  after={text}
                />
              </>
            )
          }}
        </Answered>
        <h3>Document</h3>
        <pre tabIndex={0}>{text}</pre>
      </div>
    </Dialog>
  )
}

const Rollback = ({ of: version }: Of<Version>) => {
  const newest = useConfiguration()
  if (newest === undefined) return null
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
        before={JSON.stringify(newest.document, null, 2)}
        after={indented(version.content)}
      />
    </rollback.Dialog>
  )
}

/** The version that runs; undefined until it is known, and where none was saved. */
const useCurrentVersion = () => useCall("llmAdmin.versions", { query: { limit: 1 } }).data?.[0]?.version

const Versions = () => {
  const current = useCurrentVersion()
  return (
    <>
      <h2>Configuration</h2>
      <List
        name="llmAdmin.versions"
        input={{ query: { limit: 20 } }}
        label="Versions of the configuration"
        keyOf={({ version }) => String(version)}
        empty={[
          "No version was saved yet",
          "What runs comes from the environment. The first change creates version 1."
        ]}
        columns={[
          {
            title: "Version",
            cell: ({ version }) => (
              <>
                <strong>{version}</strong> {version === current ? <Tag tone="ok">current</Tag> : null}
              </>
            )
          },
          { title: "Saved", cell: ({ createdAt }) => <Moment at={createdAt} style="full" /> },
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
            <Act
              needs="llm:admin"
              opens={<Rollback of={version} />}
              unless={version.version === current ? "It runs already" : undefined}
            >
              Roll back
            </Act>
          </>
        )}
      />
    </>
  )
}

/** Providers with their health, and the gateway's configuration with its versions. */
export default function Gateway() {
  const may = useCan()
  const reload = useChange("llmAdmin.reload", "The configuration was reloaded")
  return (
    <Page
      title="Providers"
      lead="Where calls go, the health of the providers, and the configuration in use."
      actions={
        <>
          <CopyCurl name="llm.health" input={{}} />
          <Act needs="llm:admin" onClick={() => reload.mutate({})}>
            Reload the keys
          </Act>
          <Act needs="llm:admin" opens={<Edit />}>
            Edit as JSON
          </Act>
          <Act kind="main" icon="plus" needs="llm:admin" opens={<ProviderDialog />}>
            Add a provider
          </Act>
        </>
      }
    >
      <Fault cause={reload.error} />
      {may("llm:admin") ? <BrokenBounds /> : null}
      <Providers />
      {may("llm:admin") ? <Versions /> : null}
    </Page>
  )
}
