/** What a period will have spent at its end, at the rate since `start`; undefined in the first tenth. In milliseconds. */
export const forecastOf = (spent: bigint, start: number, end: number, now: number): bigint | undefined => {
  if (now >= end) return spent
  // The rate of the first moments predicts nothing about a month.
  return (now - start) * 10 < end - start ? undefined : spent + (spent * BigInt(end - now)) / BigInt(now - start)
}
