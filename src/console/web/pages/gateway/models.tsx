import { useCall } from "../../api/hooks.ts"
import { type Answer } from "../../api/operations.ts"
import { ButtonLink, CopyCurl } from "../../kit/actions.tsx"
import { shortCount } from "../../kit/format.tsx"
import { FilterChoices, nothingMatches, useFilters } from "../../kit/lists/filters.tsx"
import { type Column, Table } from "../../kit/lists/table.tsx"
import { Page } from "../../kit/page.tsx"
import { Answered, Noted, Soft, Tag } from "../../kit/parts.tsx"
import { Empty } from "../../kit/states.tsx"
import { CapFor } from "../money/cap-form.tsx"
import { cachedPrice, inputPrice, outputPrice } from "./prices.ts"

type Model = Answer<"llm.models">[number]

const tones = { available: "ok", degraded: "warn", unavailable: "bad" } as const

const columns: ReadonlyArray<Column<Model>> = [
  {
    title: "Model",
    cell: ({ aliases, capabilities, id, kind }) => (
      <span className="lines">
        <Noted value={<strong>{id}</strong>} note={aliases.length === 0 ? null : `alias ${aliases.join(", ")}`} />
        <small>{[kind, ...capabilities].join(", ")}</small>
      </span>
    )
  },
  { title: "Status", cell: ({ status }) => <Tag tone={tones[status]}>{status}</Tag> },
  { title: "Providers", cell: (model) => model.providers.join(", ") },
  {
    title: "Input, 1 M tokens",
    isNumber: true,
    cell: ({ prices }) => (prices === null ? <Soft>unknown</Soft> : inputPrice(prices))
  },
  {
    title: "Cached",
    isNumber: true,
    cell: ({ prices }) => prices && cachedPrice(prices)
  },
  { title: "Output", isNumber: true, cell: ({ prices }) => prices && outputPrice(prices) },
  { title: "Context", isNumber: true, cell: ({ contextTokens }) => contextTokens && shortCount(contextTokens) }
]

/** Models that callers can request, with their prices. */
export default function Models() {
  const asked = useCall("llm.models", {}, { everySeconds: 60 })
  const { isFiltered, values } = useFilters(["search", "provider", "status"])
  const text = (values.search ?? "").toLowerCase()
  const matches = ({ aliases, capabilities, id, providers, status }: Model) =>
    [id, ...aliases, ...capabilities].some((word) => word.toLowerCase().includes(text)) &&
    (values.provider === undefined || providers.includes(values.provider)) &&
    (values.status === undefined || status === values.status)
  const providers = [...new Set(asked.data?.flatMap((model) => model.providers))].toSorted()
  return (
    <Page
      title="Models"
      lead="The models that callers can request, with prices per million tokens. Caps in dollars count by these prices."
      actions={<CopyCurl name="llm.models" input={{}} />}
    >
      <div className="filters">
        <FilterChoices
          filters={[
            { key: "search", label: "Search names, aliases and features", isSearched: true },
            { key: "provider", label: "Provider", options: providers },
            { key: "status", label: "Status", options: Object.keys(tones) }
          ]}
        />
      </div>
      <section className="card">
        <Answered asked={asked} rows={8}>
          {(models) => (
            <Table
              label="Models"
              rows={models.filter(matches)}
              empty={
                isFiltered ? (
                  nothingMatches
                ) : (
                  <Empty title="There is no model yet">
                    <ButtonLink href="/gateway">Add a provider</ButtonLink>
                  </Empty>
                )
              }
              rowClass={({ status }) => (status === "unavailable" ? "gone" : undefined)}
              columns={columns}
              acts={({ id, kind }) => (
                <>
                  {kind === "chat" ? <ButtonLink href={`/try?model=${encodeURIComponent(id)}`}>Try</ButtonLink> : null}
                  <CapFor of={{ model: id, name: id }} />
                </>
              )}
            />
          )}
        </Answered>
      </section>
    </Page>
  )
}
