import { assert, describe, it } from "@effect/vitest"
import { Option, Schema } from "effect"
import { asciiDomain, Email, emailKey } from "../../src/kernel/email.ts"

const read = Schema.decodeUnknownOption(Email)

const addresses: Readonly<Record<string, string>> = {
  Hindi: "संपर्क@डाटामेल.भारत",
  Tamil: "தமிழ்@example.com",
  Bengali: "বাংলা@example.com",
  Thai: "ส้มโอ@รูปภาพ.ไทย",
  "Persian, with the joiner between its words": "می‌خواهم@نامه‌ای.ir",
  "Sinhala, with a joiner that makes one letter of two": "ශ්‍රී@example.lk",
  "Tibetan, with the sign between its syllables": "བོད་ཡིག@example.com",
  "Catalan, with a dot in a letter": "col·legi@col·legi.cat",
  "a domain with the full stop of Chinese": "用户@例え。jp",
  "decomposed, as a Mac writes it": "nguyễn@example.com".normalize("NFD"),
  "the signs of RFC 5322": "a.b!#$%&'*+/=?^_`{|}~-c@example.com"
}

const strange: Readonly<Record<string, string>> = {
  "a joiner between letters of Latin, which nobody sees": "ad\u200ca@example.com",
  "a joiner at the end": "می\u200c@example.com",
  "two joiners": "می\u200c\u200cخ@example.com",
  "a space of no width": "ad\u200ba@example.com",
  "a soft hyphen in the domain": "ada@ex\u00adample.com",
  "a mark without a letter": "\u0301@example.com",
  "the sign @ of full width": "ada＠home@example.com",
  "two dots": "a..b@example.com",
  "a dot at the start": ".ada@example.com",
  "a dot at the end": "ada.@example.com",
  "an address of a host": "ada@1.2.3.4",
  "an address of a host in three numbers": "ada@10.1.5",
  "an address of a host in brackets": "ada@[192.0.2.1]",
  "no dot in the domain": "ada@localhost",
  "an empty label": "ada@example..com",
  "a label that begins with a hyphen": "ada@-example.com",
  "an encoded domain": "ada@ex%61mple.com",
  "a port": "ada@example.com:25",
  "a path": "ada@example.com/x",
  "65 characters before the @": `${"a".repeat(65)}@example.com`
}

describe("an e-mail address", () => {
  for (const [what, address] of Object.entries(addresses)) {
    it(`takes ${what}`, () => assert.deepStrictEqual(read(address), Option.some(address.normalize("NFC"))))
  }
  for (const [what, address] of Object.entries(strange)) {
    it(`refuses ${what}`, () => assert.isTrue(Option.isNone(read(address)), address))
  }
})

describe("what addresses are compared by", () => {
  for (const [one, other] of [
    ["Ada@Example.COM", "ada@example.com"],
    ["JÜRGEN@EXÄMPLE.DE", "jürgen@xn--exmple-cua.de"],
    ["Jürgen@example.de".normalize("NFD"), "jürgen@example.de"],
    ["ΟΔΟΣ@example.gr", "οδος@example.gr"],
    ["οδοσ@example.gr", "οδος@example.gr"],
    ["a@例え。jp", "a@例え.jp"],
    ["\u212Aelvin@example.com", "kelvin@example.com"]
  ] as const) {
    it(`${one} and ${other} are one`, () => assert.strictEqual(emailKey(one), emailKey(other)))
  }
  for (const [one, other] of [
    ["İnci@example.com", "inci@example.com"],
    ["ınci@example.com", "inci@example.com"],
    ["strasse@example.com", "straße@example.com"],
    ["a@strasse.example", "a@straße.example"],
    ["ſam@example.com", "sam@example.com"],
    ["ａda@example.com", "ada@example.com"],
    ["no address", "no other address"]
  ] as const) {
    it(`${one} and ${other} are two`, () => assert.notStrictEqual(emailKey(one), emailKey(other)))
  }
  it("domains in ASCII, which is what they are stored as", () => {
    assert.strictEqual(asciiDomain("EXÄMPLE.de"), "xn--exmple-cua.de")
    assert.strictEqual(asciiDomain("faß.de"), "xn--fa-hia.de")
    assert.isUndefined(asciiDomain("example"))
  })
})
