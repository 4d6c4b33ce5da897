import { call } from "../../api/client.ts"
import { type Answer } from "../../api/operations.ts"
import { Act, CopyCurl } from "../../kit/actions.tsx"
import { save } from "../../kit/download.ts"
import { Search, useFilters } from "../../kit/lists/filters.tsx"
import { type Column, Table } from "../../kit/lists/table.tsx"
import { Page } from "../../kit/page.tsx"
import { Called, Soft, Tag } from "../../kit/parts.tsx"
import { announce } from "../../kit/toast.tsx"

/** Saves what a question about this installation needs as answer: version, health, figures and settings, without secrets. */
const saveBundle = async () => {
  const [settings, health, metrics] = await Promise.all([
    call("dashboard.settings", {}),
    call("dashboard.health", {}),
    call("dashboard.metrics", {})
  ])
  const text = JSON.stringify(
    { madeAt: new Date().toISOString(), browser: navigator.userAgent, settings, health, metrics },
    undefined,
    2
  )
  save(new Blob([text], { type: "application/json" }), "support-bundle.json")
  announce("The support bundle is saved")
}

const columns: ReadonlyArray<Column<Answer<"dashboard.settings">["settings"][number]>> = [
  {
    title: "Key",
    isWide: true,
    cell: ({ description, key }) => (
      <>
        <code>{key}</code>
        <div className="wrap soft">{description}</div>
      </>
    )
  },
  { title: "Value", cell: ({ value }) => (value === null ? <Soft>none</Soft> : <code title={value}>{value}</code>) },
  { title: "Set by", cell: ({ source }) => (source === "default" ? <Soft>default</Soft> : <Tag>{source}</Tag>) }
]

/** What the service runs with, and where each setting came from. */
export default function Settings() {
  const { set, values } = useFilters(["search"] as const)
  const wanted = (values.search ?? "").toLowerCase()
  return (
    <Page
      title="Settings"
      lead="What this replica was started with. Change settings where it is started."
      actions={
        <>
          <CopyCurl name="dashboard.settings" input={{}} />
          <Act onClick={() => void saveBundle()}>Save a support bundle</Act>
        </>
      }
    >
      <Called name="dashboard.settings" input={{}}>
        {({ environment, settings, version }) => {
          const rows = settings.filter(({ description, key }) => `${key} ${description}`.toLowerCase().includes(wanted))
          return (
            <>
              <p className="soft">
                Version {version}, {environment}
              </p>
              <div className="filters">
                <Search label="Name or description" value={values.search} onSearch={(value) => set("search", value)} />
              </div>
              <section className="card">
                <Table
                  label="Settings"
                  rows={rows}
                  empty="Nothing matches"
                  keyOf={({ key }) => key}
                  columns={columns}
                />
              </section>
            </>
          )
        }}
      </Called>
    </Page>
  )
}
