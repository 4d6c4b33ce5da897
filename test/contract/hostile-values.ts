import { type Dice } from "./dice.ts"

const base64url = (text: string): string => Buffer.from(text).toString("base64url")

/** Texts that have broken services: as ids, names, dates, numbers, cursors. */
export const hostileTexts: readonly [string, ...ReadonlyArray<string>] = [
  "",
  " ",
  "\u0000",
  "a\u0000b",
  "\ud800",
  "\udfff\ud800",
  "'; DROP TABLE trial_users; --",
  `" OR 1=1 --`,
  "%27 %00 %s %n",
  "${7*7}{{7*7}}<%= 7*7 %>",
  "<script>alert(1)</script>",
  "a\r\nSet-Cookie: session=1\r\n\r\n",
  "../../etc/passwd",
  "\u202e\u200b\ufeff",
  "İıſßﬁ",
  "e\u0301\u0301\u0301",
  "👩‍👩‍👧‍👦🏴‍☠️",
  "１２３",
  "٣",
  "1e3",
  "+1",
  "01",
  "0x10",
  "-0",
  "-1",
  "0",
  "1.0",
  "1_000",
  " 1",
  "NaN",
  "Infinity",
  "null",
  "undefined",
  "true",
  "[object Object]",
  "__proto__",
  "constructor",
  "toString",
  "2147483648",
  "9007199254740993",
  "9223372036854775808",
  "99999999999999999999999999",
  "2026-02-30T00:00:00.000Z",
  "9999-12-31T23:59:59.999Z",
  "9999-12-31T23:59:59.9999Z",
  "9999-12-31T23:59:59.999-23:59",
  "10000-01-01T00:00:00.000Z",
  "+275760-09-13T00:00:00.000Z",
  "1969-12-31T23:59:59.999Z",
  "1970-01-01T00:00:00+23:59",
  "2026-01-01",
  "2026-01-01T00:00:00",
  "2026-06-30T23:59:60Z",
  "2026-01-01T24:00:00Z",
  "2026-01-01t00:00:00z",
  "2026-01-01T00:00:00.123456789Z",
  "0000-00-00T00:00:00Z",
  "00000000-0000-0000-0000-000000000000",
  "0198A5B0-7C00-7000-8000-00000000002A",
  "{0198a5b0-7c00-7000-8000-00000000002a}",
  "::ffff:192.0.2.1",
  "fe80::1%eth0",
  "1.2.3",
  "0177.0.0.1",
  "::",
  "a@b.c",
  `${"a".repeat(64)}@${"b".repeat(63)}.example`,
  "*:*",
  "trial-users:*",
  "*",
  ":",
  "nobody:nothing",
  base64url("null"),
  base64url("1"),
  base64url("1e999"),
  base64url("99999999999"),
  base64url('{"occurredAt":"2026-01-01T00:00:00.000Z","id":"x"}'),
  base64url('{"occurredAt":"2026-01-01T00:00:00.000Z","id":"0198a5b0-7c00-7000-8000-00000000002a"}'),
  base64url('"0198a5b0-7c00-7000-8000-00000000002a"'),
  base64url("\ud800"),
  Buffer.from([0xff, 0xfe, 0x00]).toString("base64url"),
  "=",
  "x".repeat(1100)
]

/** JSON text that no JavaScript value stands for, written in place of these marks when the body is sent. */
const rawJson: Readonly<Record<string, string>> = {
  "@@overflow": "1e400",
  "@@underflow": "1e-400",
  "@@negative-zero": "-0",
  "@@integer-as-float": "1.0",
  "@@integer-as-exponent": "1e0",
  "@@beyond-double": "9007199254740993",
  "@@huge-integer": "9".repeat(400),
  "@@long-fraction": `0.${"1".repeat(400)}`,
  "@@deep-array": `${"[".repeat(20_000)}${"]".repeat(20_000)}`,
  "@@deep-object": `${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}`,
  "@@lone-surrogate": String.raw`"\ud83d"`,
  "@@prototype": '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}',
  "@@duplicates": '{"a":1,"a":2}',
  "@@huge-text": JSON.stringify("x".repeat(300_000)),
  "@@wide-array": `[${"1,".repeat(20_000)}1]`,
  "@@wide-object": `{${Array.from({ length: 5000 }, (_, index) => `"k${index}":1`).join(",")}}`
}

/** A JSON value that fits few schemas. */
export const hostileValueOf = (dice: Dice): unknown => {
  if (dice.chance(0.4)) return dice.pick(hostileTexts)
  if (dice.chance(0.4)) return dice.pickOr(Object.keys(rawJson), "")
  return dice.pick<unknown>([
    null,
    true,
    false,
    0,
    -1,
    1.5,
    1e308,
    -1e308,
    2 ** 31,
    2 ** 53,
    [],
    {},
    [null],
    [[]],
    { length: 1 }
  ])
}

/** The JSON text of a value, with its marks written out. */
export const jsonTextOf = (value: unknown): string =>
  JSON.stringify(value ?? null).replaceAll(/"(@@[a-z-]+)"/g, (text, mark: string) => rawJson[mark] ?? text)

const memberNames = [
  "unknown",
  "__proto__",
  "constructor",
  "prototype",
  "hasOwnProperty",
  "toString",
  "toJSON",
  "then",
  "length",
  "",
  "\u0000",
  "\ud800",
  "a.b",
  "a[0]",
  "0",
  "Ａ",
  "x".repeat(5000)
] as const

/** The value with one place of it replaced, left out or added: the same object never. */
export const spoiled = (dice: Dice, value: unknown): unknown => {
  if (Array.isArray(value) && value.length > 0 && dice.chance(0.7)) {
    const place = dice.below(value.length)
    return value.map((item: unknown, index) => (index === place ? spoiled(dice, item) : item))
  }
  if (typeof value !== "object" || value === null || Array.isArray(value) || dice.chance(0.1))
    return hostileValueOf(dice)
  const entries = Object.entries(value)
  const place = dice.below(entries.length)
  switch (dice.below(4)) {
    case 0:
      return Object.fromEntries([...entries, [dice.pick(memberNames), hostileValueOf(dice)]])
    case 1:
      return Object.fromEntries(entries.filter((_, index) => index !== place))
    default:
      return Object.fromEntries(
        entries.map(([key, item], index) => [key, index === place ? spoiled(dice, item) : item])
      )
  }
}

/** Whole bodies that are no JSON of the right form, or none at all. */
export const hostileBodies: readonly [Buffer, ...ReadonlyArray<Buffer>] = [
  Buffer.from(""),
  Buffer.from(" "),
  ...[
    "{",
    "nul",
    "null",
    "[]",
    "{}",
    '""',
    "0",
    "{}{}",
    "{'a':1}",
    '{"a":1,}',
    '{"a":NaN}',
    '{"a":01}',
    "\ufeff{}",
    '{"a":"\u0001"}',
    '{"__proto__":null}',
    "a=1&b=2",
    "<a/>",
    "--x\r\ncontent-disposition: form-data; name=a\r\n\r\n1\r\n--x--\r\n"
  ].map((text) => Buffer.from(text)),
  Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
  Buffer.from('{"a":1}', "utf16le"),
  Buffer.alloc(1024),
  Buffer.alloc(1_100_000, "["),
  Buffer.from(`{"a":"${"x".repeat(1_100_000)}"}`)
]

export const hostileMediaTypes = [
  "text/plain",
  "application/x-www-form-urlencoded",
  "multipart/form-data; boundary=x",
  "multipart/form-data",
  "application/xml",
  "application/octet-stream",
  "application/json; charset=utf-16",
  "application/jsonx",
  "application/problem+json",
  "APPLICATION/JSON",
  "application/json;",
  "json",
  "/",
  ""
] as const
