/** The bounds of a calendar month of UTC, as billing counts them: "2026-01". */
export const boundsOfMonth = (month: string) => {
  const [year = 0, number = 1] = month.split("-").map(Number)
  return {
    from: new Date(Date.UTC(year, number - 1, 1)).toISOString(),
    to: new Date(Date.UTC(year, number, 1)).toISOString()
  }
}

/** The months up to the current one, the newest first. */
export const lastMonths = (): ReadonlyArray<string> => {
  const now = new Date()
  return Array.from({ length: 25 }, (_, back) =>
    new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)).toISOString().slice(0, 7)
  )
}

const monthName = new Intl.DateTimeFormat("en-GB", { month: "long", year: "numeric", timeZone: "UTC" })

export const nameOfMonth = (month: string) => monthName.format(new Date(`${month}-01T00:00:00Z`))
