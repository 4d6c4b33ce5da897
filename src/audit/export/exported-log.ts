import { Option, Schema } from "effect"
import * as crypto from "node:crypto"
import {
  canonicalObject,
  type ExactJson,
  type ExactObject,
  hasRepeatedMember,
  parseExact
} from "../../kernel/json/canonical-json.ts"
import { genesisHash, linkHash } from "../chain/link.ts"
import { checkpointActions, type ExportStatement, retirementActions } from "../log/domain.ts"

/** How many recent links are remembered, to compare neighbours and checkpoints that come a little out of order. */
const remembered = 20_000
const maxGaps = 10_000
const maxFaults = 20

const Line = Schema.Struct({
  sequence: Schema.Int.pipe(Schema.check(Schema.isGreaterThan(0))),
  previousHash: Schema.String,
  hash: Schema.String
})
/** What a line has beside the entry. */
const proofMembers = new Set(["hash", "previousHash"])
const readSeal = Schema.decodeUnknownOption(Schema.Struct({ seal: Schema.String }))
const readLine = Schema.decodeUnknownOption(Line)
const readJws = Schema.decodeUnknownOption(
  Schema.Struct({ changes: Schema.Struct({ after: Schema.Struct({ jws: Schema.String }) }) })
)

/** A line that is not what the log held. */
export interface LineFault {
  readonly line: number
  readonly sequence: number | undefined
  readonly detail: string
}

/** A statement of the service that a line records, with its signature; a seal is one over all lines before it. */
export interface Recorded {
  readonly kind: "checkpoint" | "retirement" | "seal"
  readonly jws: string
}

/** A run of sequences, both ends included. */
export interface Run {
  readonly first: number
  readonly last: number
}

interface Seen {
  readonly hash: string
  readonly previousHash: string
}

/** Reads an exported log line by line, in memory that does not grow with it. */
export class ExportedLog {
  lines = 0
  first: number | undefined
  last: number | undefined
  /** The first faults; {@link faultCount} has them all. */
  readonly faults: Array<LineFault> = []
  faultCount = 0
  /** Sequences between the first and the last that no line has. */
  private gaps: Array<Run> = []
  /** How many of the kept places the log has, with their hashes. */
  confirmed = 0
  private isSealed = false
  private readonly digest = crypto.createHash("sha256")
  private readonly seen = new Map<number, Seen>()
  private readonly retired: Array<Run> = []
  private readonly kept: ReadonlyMap<number, string>

  /** `kept` are hashes by their sequences that are known from elsewhere. */
  constructor(kept: ReadonlyMap<number, string> = new Map()) {
    this.kept = kept
  }

  /** Takes the next line; answers what it records when that is signed. */
  take(text: string): Recorded | undefined {
    const members = parsed(text)
    const seal = members === undefined ? Option.none() : readSeal(members)
    if (Option.isSome(seal) && !this.isSealed) {
      this.isSealed = true
      return { kind: "seal", jws: seal.value.seal }
    }
    this.lines += 1
    if (this.isSealed) this.fault(undefined, "It is behind the seal, which must be the last line")
    const line = members === undefined ? Option.none() : readLine(members)
    if (members === undefined || Option.isNone(line)) {
      this.fault(undefined, "It is no line of an exported log")
      return undefined
    }
    const { hash, previousHash, sequence } = line.value
    this.digest.update(hash)
    if (hasRepeatedMember(text, members)) this.fault(sequence, "A member occurs twice")
    if (linkHash(canonicalObject(members, proofMembers), previousHash) !== hash) {
      this.fault(sequence, "The entry is not what was linked")
    }
    const known = this.kept.get(sequence)
    if (known === hash) this.confirmed += 1
    else if (known !== undefined) this.fault(sequence, "Its hash is another than the one that was kept of it")
    this.place(sequence, { hash, previousHash })
    const kind = kindOf(members.actionType)
    if (kind === undefined) return undefined
    return Option.getOrUndefined(Option.map(readJws(members), ({ changes }) => ({ kind, jws: changes.after.jws })))
  }

  /** These runs went with months that were retired: they are not missing. */
  retire(runs: ReadonlyArray<Run>): void {
    this.retired.push(...runs)
  }

  /** Sequences from the first of the chain to the last line that no line has, but for those that were retired. */
  missing(): ReadonlyArray<Run> {
    const before = (this.first ?? 1) > 1 ? [{ first: 1, last: (this.first ?? 1) - 1 }] : []
    return this.retired.reduce<ReadonlyArray<Run>>(
      (runs, retired) => runs.flatMap((run) => around(run, retired)),
      [...before, ...this.gaps].toSorted((a, b) => a.first - b.first)
    )
  }

  /** The last of the kept places when it lies behind the last line: the log does not reach it. */
  cutBefore(): number | undefined {
    const last = Math.max(0, ...this.kept.keys())
    return last > (this.last ?? 0) ? last : undefined
  }

  /** Whether all lines so far are those that a seal was put on. */
  fits({ digest, lines }: Pick<ExportStatement, "digest" | "lines">): boolean {
    return lines === this.lines && digest === this.digest.copy().digest("hex")
  }

  /** The hash of a line among the recent ones. */
  hashAt(sequence: number): string | undefined {
    return this.seen.get(sequence)?.hash
  }

  fault(sequence: number | undefined, detail: string): void {
    this.faultCount += 1
    if (this.faults.length < maxFaults) this.faults.push({ line: this.lines, sequence, detail })
  }

  private place(sequence: number, link: Seen): void {
    const before = sequence === 1 ? genesisHash : this.hashAt(sequence - 1)
    const after = this.seen.get(sequence + 1)
    if (this.seen.has(sequence)) this.fault(sequence, "There is another line with its sequence: one was inserted")
    else if (before !== undefined && before !== link.previousHash) {
      this.fault(sequence, "It does not follow from the line before it")
    } else if (after !== undefined && after.previousHash !== link.hash) {
      this.fault(sequence, "The line after it does not follow from it")
    }
    this.seen.set(sequence, link)
    if (this.seen.size > remembered) for (const oldest of this.seen.keys()) if (this.seen.delete(oldest)) break
    this.fill(sequence)
  }

  private fill(sequence: number): void {
    if (this.first === undefined || this.last === undefined) {
      this.first = this.last = sequence
    } else if (sequence > this.last) {
      if (sequence > this.last + 1) this.open({ first: this.last + 1, last: sequence - 1 })
      this.last = sequence
    } else if (sequence < this.first) {
      if (sequence < this.first - 1) this.open({ first: sequence + 1, last: this.first - 1 })
      this.first = sequence
    } else {
      this.gaps = this.gaps.flatMap((gap) => around(gap, { first: sequence, last: sequence }))
    }
  }

  private open(gap: Run): void {
    const latest = this.gaps.at(-1)
    // In a file with very many gaps the last ones are reported as one.
    if (this.gaps.length >= maxGaps && latest !== undefined) {
      this.gaps[this.gaps.length - 1] = {
        first: Math.min(latest.first, gap.first),
        last: Math.max(latest.last, gap.last)
      }
    } else this.gaps.push(gap)
  }
}

/** What is left of a run without another. */
const around = (run: Run, other: Run): ReadonlyArray<Run> =>
  other.last < run.first || other.first > run.last
    ? [run]
    : [
        ...(run.first < other.first ? [{ first: run.first, last: other.first - 1 }] : []),
        ...(other.last < run.last ? [{ first: other.last + 1, last: run.last }] : [])
      ]

const kindOf = (actionType: ExactJson | undefined): "checkpoint" | "retirement" | undefined => {
  if (actionType === checkpointActions.AuditCheckpointSigned.actionType) return "checkpoint"
  return actionType === retirementActions.AuditMonthRetired.actionType ? "retirement" : undefined
}

const parsed = (text: string): ExactObject | undefined => {
  try {
    const value: ExactJson = parseExact(text)
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as ExactObject) : undefined
  } catch {
    return undefined
  }
}
