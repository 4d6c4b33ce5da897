/**
 * A table to look up names in that come from elsewhere. It has its own members alone, where a plain object has a `constructor`
 * and a `__proto__` too.
 */
export const lookupTable = <Value>(members: Readonly<Record<string, Value>>): Readonly<Record<string, Value>> =>
  Object.assign(Object.create(null) as Record<string, Value>, members)
