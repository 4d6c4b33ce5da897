const quote = 0x22
const backslash = 0x5c
const colon = 0x3a
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]

/** So many names are looked through faster than they are put into a set. */
const few = 16

/** The names of an object's members so far. */
class Names {
  private readonly few: Array<string> = []
  private many: Set<string> | undefined

  /** Whether the name was there before. */
  add(name: string): boolean {
    if (this.many !== undefined) return this.many.size === this.many.add(name).size
    if (this.few.includes(name)) return true
    this.few.push(name)
    if (this.few.length > few) this.many = new Set(this.few)
    return false
  }
}

/** Where a text of JSON ends that begins at `start`: its closing quote. */
const endOf = (bytes: Buffer, start: number): number => {
  let end = start
  for (;;) {
    end = bytes.indexOf(quote, end + 1)
    let escapes = 0
    while (bytes[end - 1 - escapes] === backslash) escapes++
    if (end < 0 || escapes % 2 === 0) return end
  }
}

const isBlank = (byte: number | undefined) => byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09

/**
 * A member that an object of this JSON has twice: readers differ in which of the two they obey, so that what is metered
 * would not be what is asked for. The JSON is known to be well formed.
 */
export const repeatedMember = (json: Uint8Array): string | undefined => {
  const bytes = Buffer.from(json.buffer, json.byteOffset, json.byteLength)
  const open: Array<Names | undefined> = []
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case openBrace:
        open.push(new Names())
        break
      case openBracket:
        open.push(undefined)
        break
      case closeBrace:
      case closeBracket:
        open.pop()
        break
      case quote: {
        const end = endOf(bytes, at)
        if (end < 0) return undefined
        const names = open.at(-1)
        let after = end + 1
        while (isBlank(bytes[after])) after++
        if (names !== undefined && bytes[after] === colon) {
          const written = bytes.toString("utf8", at, end + 1)
          const name = written.includes("\\") ? String(JSON.parse(written)) : written.slice(1, -1)
          if (names.add(name)) return name
        }
        at = after - 1
        break
      }
    }
  }
  return undefined
}
