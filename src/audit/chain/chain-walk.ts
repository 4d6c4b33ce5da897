import { AuditEntryId, type ProofFault, type ProofProblem, type RetiredRun } from "../log/domain.ts"
import { type StoredEntry, withId } from "./chain-repository.ts"
import { canonicalEntry, genesisHash, linkHash } from "./link.ts"
import { type LinkedRow } from "./proof-repository.ts"

/** How many bad links are kept to distinguish a swap from two changes. */
const most = 100

interface BadLink {
  readonly row: LinkedRow
  readonly fault: ProofFault
  /** The entry with the link's id, where it lies at another time than the link says. */
  elsewhere?: StoredEntry
}

/**
 * Follows the links of a chain in their order and notes what does not fit. It keeps the last link, and the first bad ones:
 * its memory does not grow with the chain.
 */
export class ChainWalk {
  /** How many links were checked. */
  checked = 0
  /** How many links had their entry where they say. */
  found = 0
  /** The last link that was seen, or its substitute. */
  sequence: number
  hash: string | null
  private lastFitted = true
  private readonly bad: Array<BadLink> = []
  private readonly faults: Array<ProofFault> = []
  private readonly retired: ReadonlyArray<RetiredRun>

  /** `hash` of the link before the first one; null when it is unknown. `retired` in the order of the chain. */
  constructor(from: number, hash: string | null, retired: ReadonlyArray<RetiredRun> = []) {
    this.sequence = from - 1
    this.hash = from === 1 ? genesisHash : hash
    this.retired = retired
    this.skipRetired()
  }

  /** The next link in the order of the sequences. */
  next(row: LinkedRow): void {
    this.checked += 1
    if (row.entry !== undefined) this.found += 1
    if (row.sequence === this.sequence) return this.repeated(row)
    if (row.sequence > this.sequence + 1) this.gapBefore(row.sequence)
    const fits = this.hash === null || row.previousHash === this.hash
    const fault = this.faultOf(row, fits)
    this.lastFitted = fault === undefined
    if (fault !== undefined) this.note(row, fault)
    this.sequence = row.sequence
    this.hash = row.hash
    this.skipRetired()
  }

  /** No link is left up to `sequence`; whatever was expected there is missing. */
  end(sequence: number): void {
    if (this.sequence < sequence) this.gapBefore(sequence + 1)
  }

  /** The walk was to end at the head: nothing was cut off there, put behind it or signed beyond it. */
  closes(
    head: { readonly sequence: number; readonly hash: string; readonly newest: number },
    signedUpTo: number
  ): void {
    const place = { sequence: head.sequence + 1, entryId: null }
    if (signedUpTo > head.sequence) {
      this.add({ ...place, problem: "missing", detail: `${signedUpTo} was signed, but the chain ends before it` })
    } else if (head.newest > head.sequence) {
      this.add({ ...place, problem: "inserted", detail: "There is a link behind the head of the chain" })
    }
    if (this.sequence === head.sequence && this.hash !== null && this.hash !== head.hash && head.sequence > 0) {
      const detail = "The last link is not the head of the chain"
      this.add({ sequence: head.sequence, entryId: null, problem: "changed", detail })
    }
  }

  /** Notes a fault that the links alone do not show. */
  add(fault: ProofFault): void {
    if (this.faults.length < most) this.faults.push(fault)
  }

  /** The ids of entries that were not where their links say. */
  astray(): ReadonlyArray<string> {
    return this.bad.flatMap(({ row }) => (row.entry === undefined ? [row.entryId] : []))
  }

  /** An entry that was not where its link says was found after all. */
  foundElsewhere(entryId: string, elsewhere: StoredEntry): void {
    for (const one of this.bad) if (one.row.entryId === entryId) one.elsewhere = elsewhere
  }

  /** The first fault by its place, those without one last; swaps are distinguished from changes. */
  firstBad(): ProofFault | null {
    const all = [...this.bad.map((one) => this.named(one)), ...this.faults]
    return all.toSorted((a, b) => placeOf(a) - placeOf(b))[0] ?? null
  }

  private faultOf(row: LinkedRow, fits: boolean): ProofFault | undefined {
    if (row.entry === undefined) return fault(row, "missing", "The entry of this link is not where it was")
    if (!fits) return fault(row, "changed", "The link does not follow from the one before it")
    return hashOf(row.entry, row.sequence, row.previousHash) === row.hash
      ? undefined
      : fault(row, "changed", "The entry is not what was linked")
  }

  /** Two links for one place: the one that does not fit was put in. */
  private repeated(row: LinkedRow): void {
    const fits = hashOf(row.entry, row.sequence, row.previousHash) === row.hash
    const former = this.bad.at(-1)
    const detail = "A second link for one place in the chain"
    if (fits && !this.lastFitted && former?.row.sequence === row.sequence) {
      this.bad.pop()
      this.add(fault(former.row, "inserted", detail))
      this.lastFitted = true
      this.hash = row.hash
    } else this.add(fault(row, "inserted", detail))
  }

  private gapBefore(sequence: number): void {
    const first = this.sequence + 1
    const last = sequence - 1
    if (first > last) return
    const detail = first === last ? `${first} is gone` : `${first} to ${last} are gone`
    this.add({ sequence: first, entryId: null, problem: "missing", detail })
    this.sequence = last
    this.hash = null
  }

  private skipRetired(): void {
    const next = this.sequence + 1
    const run = this.retired.find(({ first, last }) => first <= next && next <= last)
    if (run === undefined) return
    if (run.first === next && this.hash !== null && this.hash !== run.previousHash) {
      const detail = "The link before a retired month is not the one that was signed"
      this.add({ sequence: Math.max(this.sequence, 1), entryId: null, problem: "changed", detail })
    }
    this.sequence = run.last
    this.hash = run.hash
    this.skipRetired()
  }

  private note(row: LinkedRow, fault: ProofFault): void {
    if (this.bad.length < most) this.bad.push({ row, fault })
    else this.add(fault)
  }

  private named(one: BadLink): ProofFault {
    const { elsewhere, fault } = one
    const other = this.bad.find((another) => another !== one && areSwapped(wholly(one), wholly(another)))
    if (other !== undefined) {
      const detail = `It was swapped with the entry at ${other.row.sequence}`
      return { ...fault, problem: "swapped", detail }
    }
    return elsewhere === undefined
      ? fault
      : { ...fault, problem: "changed", detail: "The time of the entry was changed" }
  }
}

const wholly = ({ elsewhere, row }: BadLink): LinkedRow => ({ ...row, entry: row.entry ?? elsewhere })

const placeOf = ({ sequence }: ProofFault): number => sequence ?? Number.POSITIVE_INFINITY

const fault = ({ entryId, sequence }: LinkedRow, problem: ProofProblem, detail: string): ProofFault => ({
  sequence,
  entryId: AuditEntryId.make(entryId),
  problem,
  detail
})

const hashOf = (entry: StoredEntry | undefined, sequence: number, previousHash: string): string | undefined =>
  entry === undefined ? undefined : linkHash(canonicalEntry(entry, sequence), previousHash)

/** Whether the places of two bad links explain each other: their entries, what the entries hold, or the links themselves. */
const areSwapped = (a: LinkedRow, b: LinkedRow): boolean =>
  (holds(a, b) && holds(b, a)) || (movedTo(a, b.sequence) && movedTo(b, a.sequence))

/** Whether the entry found at `a` is, under either id, what was linked at `b`. */
const holds = ({ entry }: LinkedRow, b: LinkedRow): boolean =>
  entry !== undefined &&
  [entry, withId(entry, b.entryId)].some((one) => hashOf(one, b.sequence, b.previousHash) === b.hash)

const movedTo = (row: LinkedRow, sequence: number): boolean =>
  hashOf(row.entry, sequence, row.previousHash) === row.hash
