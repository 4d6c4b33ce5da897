/** Words that passwords are made of when they are meant to be remembered at once, and guessed at once. */
const words = `
123123 abc123 access account administrator admin adminadmin andrew anthony application applicationmanager asdfasdf
asdfgh asdfghjkl ashley autumn azerty bailey barcelona baseball basketball batman beautiful blahblah blink buster
butterfly changeit changeme charlie chelsea chocolate christmas company computer cookie correcthorsebatterystaple
dallas daniel default demo dragon dubsmash everything facebook family flower football forever freedom friends fuckyou
fuckoff garfield ginger google guest hannah harley hello helloworld hockey hottie hunter iloveu iloveyou internet
jennifer jessica jesus jordan joshua killer letmein liverpool login london lovely loveme manager manchester master
matrix matthew maverick michael michelle microsoft monkey monster mustang mypassword mynoob nevergiveup nicole ninja
nothing onedirection operator pass passcode passphrase passwd password passwort pepper pokemon princess private
purple qazwsx qazwsxedc qwert qwerty qwertyu qwertyuiop qwertz ranger robert rootroot root samantha samsung school secret
server service shadow snoopy soccer solo something spring starwars startrek steelers summer sunshine superman
superuser support sysadmin system teacher techsupport temp temporary test testing thisismypassword thomas thunder
tigger tinkerbell trustno trustnoone unbelievable unknown user victoria vikings welcome whatever whatsup william
winter wizard yankees zaq xsw zxcvbn zxcvbnm
`
  .trim()
  .split(/\s+/)

const known = new Set(words)

/** What fingers find without a head. */
const rows = [
  "01234567890123456789",
  "abcdefghijklmnopqrstuvwxyz",
  "qwertyuiopasdfghjklzxcvbnm",
  "qwertzuiopasdfghjklyxcvbnm",
  "azertyuiopqsdfghjklmwxcvbn",
  "1qaz2wsx3edc4rfv5tgb6yhn7ujm",
  "qazwsxedcrfvtgbyhnujmikolp",
  "1q2w3e4r5t6y7u8i9o0p",
  "q1w2e3r4t5y6u7i8o9p0",
  "a1b2c3d4e5f6g7h8i9j0",
  "zaq12wsxcde34rfv"
]
const runs = rows.flatMap((row) => [row, [...row].toReversed().join("")])

const meant: Readonly<Record<string, string>> = {
  "0": "o",
  "1": "i",
  "3": "e",
  "4": "a",
  "5": "s",
  "7": "t",
  "@": "a",
  $: "s",
  "!": "i"
}

/** The smallest piece that a text repeats throughout, or the text itself. */
const repeatedIn = (text: string): string => {
  for (let length = 1; length <= text.length / 2; length++) {
    const piece = text.slice(0, length)
    if (piece.repeat(Math.ceil(text.length / length)).slice(0, text.length) === text) return piece
  }
  return text
}

const spelledOut = (text: string): string => [...text].map((letter) => meant[letter] ?? letter).join("")

/** A word without the digits and signs around it, which people commonly add. */
const bare = (text: string): string => text.replaceAll(/^[^\p{L}\p{M}]+|[^\p{L}\p{M}]+$/gu, "")

const lettersOf = (text: string): string => text.replaceAll(/[^\p{L}\p{M}]+/gu, "")

// As passwords are hashed: what is known of the owner may have been typed on another keyboard.
const folded = (text: string): string => text.normalize("NFKC").toLowerCase()

/** Texts that a guesser tries first: the words, with digits and signs around them and letters put as digits. */
const isKnown = (text: string): boolean => {
  const forms = [text, bare(text), lettersOf(text), spelledOut(text), bare(spelledOut(text)), spelledOut(bare(text))]
  return forms.some((form) => known.has(form) || known.has(repeatedIn(form)))
}

/** Whether everything is words that are known, one after another. */
const isMadeOfKnown = (text: string): boolean => {
  const reachable = new Set([0])
  for (let start = 0; start < text.length; start++) {
    if (!reachable.has(start)) continue
    for (const word of words) if (word.length > 3 && text.startsWith(word, start)) reachable.add(start + word.length)
  }
  return text.length > 0 && reachable.has(text.length)
}

const isRun = (text: string): boolean => runs.some((run) => run.includes(text))

/**
 * Whether a password is one that guessers try first: a common one or made of common words, a row of keys, few characters
 * repeated, or made of what is known of its owner (`about`: the e-mail address, the name).
 */
export const isCommonPassword = (password: string, about: ReadonlyArray<string> = []): boolean => {
  const text = folded(password)
  const letters = text.replaceAll(/[\s_.-]+/g, "")
  if (new Set(letters).size < 5) return true
  const piece = repeatedIn(letters)
  if (piece.length < letters.length && piece.length < 8) return true
  if (isRun(letters) || (bare(letters).length >= 8 && isRun(bare(letters))) || isKnown(letters)) return true
  if (isMadeOfKnown(bare(letters)) || isMadeOfKnown(spelledOut(bare(letters)))) return true
  const own = about
    .flatMap((known) => {
      const whole = folded(known)
      return [whole, ...whole.split(/[^\p{L}\p{N}\p{M}\u200c\u200d]+/u)]
    })
    .filter((known) => known.length >= 4)
  // What is left without the owner's names is too little.
  const left = own.toSorted((a, b) => b.length - a.length).reduce((rest, known) => rest.replaceAll(known, ""), text)
  return left.length < text.length && lettersOf(left).length < 4
}
