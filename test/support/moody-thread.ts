import { replyWith } from "../../src/platform/runtime/thread-body.ts"

/** What a thread under test is asked to do. */
export type Mood = "answer" | "loop" | "throw" | "hoard" | "end later"

const hoard: Array<Array<number>> = []
let answered = 0

replyWith((mood: Mood) => {
  switch (mood) {
    case "loop":
      for (;;);
    case "throw":
      throw new Error("no mood for it")
    case "hoard":
      for (;;) hoard.push(Array.from({ length: 10_000 }, () => hoard.length))
    case "end later":
      setImmediate(() => process.exit())
      return ++answered
    case "answer":
      return ++answered
  }
})
