const maxKnown = 1000

/** Metrics by their attributes. The cache is cleared at a limit that only a long series of new configurations reaches. */
export const series = <const Names extends ReadonlyArray<string>, M>(make: (...names: Names) => M) => {
  const known = new Map<string, M>()
  return (...names: Names): M => {
    const key = names.join(" ")
    let found = known.get(key)
    if (found === undefined) {
      if (known.size === maxKnown) known.clear()
      known.set(key, (found = make(...names)))
    }
    return found
  }
}
