/** Reproducible choices: the same seed makes the same ones. */
export interface Dice {
  /** An integer from 0 to below `bound`. */
  below(bound: number): number
  chance(probability: number): boolean
  pick<A>(list: readonly [A, ...ReadonlyArray<A>]): A
  /** One of a list that may be empty. */
  pickOr<A>(list: ReadonlyArray<A>, fallback: A): A
  /** One of a list at random, and none twice before all of them have come. */
  deal<A>(list: readonly [A, ...ReadonlyArray<A>]): A
}

/** Mulberry32 on a 32-bit hash of the text. */
export const diceOf = (seed: string): Dice => {
  let state = 0x811c9dc5
  for (const character of seed) state = Math.imul(state ^ (character.codePointAt(0) ?? 0), 0x01000193)
  const next = () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
  const below = (bound: number) => Math.floor(next() * bound)
  const decks = new Map<ReadonlyArray<unknown>, Array<number>>()
  return {
    deal: (list) => {
      const left = decks.get(list) ?? []
      if (left.length === 0) left.push(...list.keys())
      decks.set(list, left)
      const [dealt = 0] = left.splice(below(left.length), 1)
      return list[dealt] ?? list[0]
    },
    below,
    chance: (probability) => next() < probability,
    pick: (list) => list[below(list.length)] ?? list[0],
    pickOr: (list, fallback) => list[below(list.length)] ?? fallback
  }
}
