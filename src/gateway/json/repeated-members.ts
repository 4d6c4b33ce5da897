import { JsonScanner, tokens } from "./json-scanner.ts"

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

/**
 * A member that an object of this JSON has twice: readers differ in which of the two they obey, so that what is metered
 * would not be what is asked for. The JSON is known to be well formed.
 */
export const repeatedMember = (json: Uint8Array): string | undefined => {
  const scanner = new JsonScanner(json)
  const open: Array<Names | undefined> = []
  for (let token = scanner.next(); token !== undefined; token = scanner.next()) {
    switch (token) {
      case tokens.openBrace:
        open.push(new Names())
        break
      case tokens.openBracket:
        open.push(undefined)
        break
      case tokens.closeBrace:
      case tokens.closeBracket:
        open.pop()
        break
      case tokens.quote: {
        const names = open.at(-1)
        const { end, start } = scanner
        if (names === undefined || !scanner.isName()) break
        const name = scanner.said(start, end)
        if (names.add(name)) return name
        break
      }
    }
  }
  return undefined
}
