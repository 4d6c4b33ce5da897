import { registerHooks } from "node:module"

// Preloaded by a service: after SIGUSR2 it prints each module that it loads from a file.
let isLate = false
process.on("SIGUSR2", () => {
  isLate = true
  process.stdout.write("watching for late modules\n")
})
registerHooks({
  load(url, context, nextLoad) {
    if (isLate && !url.startsWith("node:")) process.stdout.write(`loaded late: ${url}\n`)
    return nextLoad(url, context)
  }
})
