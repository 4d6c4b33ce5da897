/** What stands in `Slots`: where it does is its own to know. */
export interface Slotted {
  slot: number | undefined
}

/**
 * A long-lived set of what comes and goes with requests. V8 replaces the table of an old `Set` again and again as members
 * come and go, and what stood in a former one lives on until all memory is collected: with all that a request holds.
 */
export class Slots<A extends Slotted> implements Iterable<A> {
  private readonly members: Array<A | undefined> = []
  private readonly free: Array<number> = []

  get size(): number {
    return this.members.length - this.free.length
  }

  add(member: A): void {
    if (member.slot !== undefined) return
    member.slot = this.free.pop() ?? this.members.length
    this.members[member.slot] = member
  }

  delete(member: A): void {
    if (member.slot === undefined) return
    this.members[member.slot] = undefined
    this.free.push(member.slot)
    member.slot = undefined
  }

  *[Symbol.iterator](): Generator<A, void> {
    for (const member of this.members) if (member !== undefined) yield member
  }
}
