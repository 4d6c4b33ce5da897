import { createContext, type ReactNode, useContext } from "react"
import { Link } from "wouter"
import { useCall } from "../../api/hooks.ts"
import { useCan } from "../../shell/session.tsx"
import { Usd } from "../format.tsx"
import { lastDays } from "./range.tsx"
import { type Column, type SpendSource } from "./table.tsx"

/** The costs of the rows that are shown that have any, once they have come. */
const Costs = createContext<ReadonlyMap<string, number> | undefined>(undefined)

interface Spending {
  readonly children: ReactNode
  readonly ids: ReadonlyArray<string>
  readonly source: SpendSource
}

/** Reads what rows cost, for the column that shows it. */
export const WithSpend = ({ children, ids, source: { dimension, from } }: Spending) => {
  const { data } = useCall("insights.spend", { params: { dimension }, query: { from, keys: ids.join(",") } })
  const costs = data && new Map(data.items.map(({ costUsd, key }) => [key, costUsd]))
  return <Costs value={costs}>{children}</Costs>
}

const filters = { agent: "agentId", "api-key": "apiKeyId", tenant: "tenantId" } as const

const Spend = ({ dimension, id }: { readonly dimension: SpendSource["dimension"]; readonly id: string }) => {
  const costs = useContext(Costs)
  return costs === undefined ? (
    <span className="soft">…</span>
  ) : (
    <Link href={`/usage?${filters[dimension]}=${id}`}>
      <Usd amount={costs.get(id) ?? 0} />
    </Link>
  )
}

/** The column that says what rows cost and sorts by it, where the caller may read that. */
export const useSpendColumn = (
  dimension: SpendSource["dimension"]
): ReadonlyArray<Column<{ readonly id: string }, "spend">> =>
  useCan()("insights:read")
    ? [
        {
          title: "Spend, 30 days",
          sort: "spend",
          isNumber: true,
          spend: { dimension, from: lastDays().from },
          cell: ({ id }) => <Spend dimension={dimension} id={id} />
        }
      ]
    : []
