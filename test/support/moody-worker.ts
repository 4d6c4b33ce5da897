import { replyWith } from "../../src/platform/runtime/worker-process-body.ts"

/** What a process under test is asked to do; it answers how often it did, and where it is to end, with its id. */
export type Mood = "answer" | "loop" | "throw" | "hoard" | "hoard at once" | "end later"

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
    case "hoard at once":
      for (;;) hoard.push(Array.from({ length: 2 ** 24 }).fill(hoard.length) as Array<number>)
    case "end later":
      setImmediate(() => process.exit())
      return process.pid
    case "answer":
      return ++answered
  }
})
