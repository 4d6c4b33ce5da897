import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { CopyCurl } from "../../kit/actions.tsx"
import { shortCount, usd } from "../../kit/format.tsx"
import { Chips } from "../../kit/forms/scopes.tsx"
import { FilterChoices, Search, useFilters } from "../../kit/lists/filters.tsx"
import { Table } from "../../kit/lists/table.tsx"
import { Page } from "../../kit/page.tsx"
import { Soft, Tag } from "../../kit/parts.tsx"
import { Answered, Empty } from "../../kit/states.tsx"

type Model = Answer<"llm.models">[number]

const tones = { available: "ok", degraded: "warn", unavailable: "bad" } as const

/** Models that callers can request, with their prices. */
export default function Models() {
  const asked = useCall("llm.models", {}, { everySeconds: 60 })
  const { isFiltered, set, values } = useFilters(["search", "provider", "status"])
  const text = (values.search ?? "").toLowerCase()
  const matches = ({ aliases, capabilities, id, providers, status }: Model) =>
    [id, ...aliases, ...capabilities].some((word) => word.toLowerCase().includes(text)) &&
    (values.provider === undefined || providers.includes(values.provider)) &&
    (values.status === undefined || status === values.status)
  const providers = [...new Set(asked.data?.flatMap((model) => model.providers))].toSorted()
  return (
    <Page
      title="Models"
      lead="What callers can request, and what a million tokens costs. Caps count by these prices."
      actions={<CopyCurl name="llm.models" input={{}} />}
    >
      <div className="filters">
        <Search
          label="Search names, aliases and what they can"
          value={values.search}
          onSearch={(value) => set("search", value)}
        />
        <FilterChoices
          filters={[
            { key: "provider", label: "Provider", options: providers },
            { key: "status", label: "Status", options: Object.keys(tones) }
          ]}
        />
      </div>
      <section className="card">
        <Answered asked={asked} rows={8}>
          {(models) => {
            const found = models.filter(matches)
            return found.length === 0 ? (
              isFiltered ? (
                <Empty title="Nothing matches">
                  <p>Change or remove a filter.</p>
                </Empty>
              ) : (
                <Empty title="There is no model yet">
                  <Link className="btn" href="/gateway">
                    Add a provider
                  </Link>
                </Empty>
              )
            ) : (
              <Table
                label="Models"
                rows={found}
                rowClass={({ status }) => (status === "unavailable" ? "gone" : undefined)}
                columns={[
                  {
                    title: "Model",
                    cell: ({ aliases, id }) => (
                      <>
                        <strong>{id}</strong> {aliases.length === 0 ? null : <small>also {aliases.join(", ")}</small>}
                      </>
                    )
                  },
                  { title: "Status", cell: ({ status }) => <Tag tone={tones[status]}>{status}</Tag> },
                  { title: "Providers", cell: (model) => model.providers.join(", ") },
                  {
                    title: "Input, 1 M tokens",
                    isNumber: true,
                    cell: ({ prices }) => (prices === null ? <Soft>unknown</Soft> : usd(prices.inputUsdPerMTok))
                  },
                  {
                    title: "Cached",
                    isNumber: true,
                    cell: ({ prices }) =>
                      prices === null ? null : usd(prices.cacheReadUsdPerMTok ?? prices.inputUsdPerMTok)
                  },
                  {
                    title: "Output",
                    isNumber: true,
                    cell: ({ prices }) => (prices === null ? null : usd(prices.outputUsdPerMTok ?? 0))
                  },
                  {
                    title: "Context",
                    isNumber: true,
                    cell: ({ contextTokens }) => (contextTokens === null ? null : shortCount(contextTokens))
                  },
                  {
                    title: "Can",
                    cell: ({ capabilities, kind }) => <Chips texts={[kind, ...capabilities]} />
                  }
                ]}
                acts={({ id, kind }) =>
                  kind === "chat" ? (
                    <Link className="btn" href={`/try?model=${encodeURIComponent(id)}`}>
                      Try
                    </Link>
                  ) : null
                }
              />
            )
          }}
        </Answered>
      </section>
    </Page>
  )
}
