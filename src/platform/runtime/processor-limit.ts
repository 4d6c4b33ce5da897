import { parentPort, workerData } from "node:worker_threads"

const checkEveryMillis = 100
const seconds = workerData as number

const usedSeconds = (): number => {
  const { system, user } = process.cpuUsage()
  return (user + system) / 1e6
}

let usedBefore: number | undefined

// Ends this process once its task has taken more of the processor than it may; from a thread, since the task blocks its own.
parentPort?.on("message", (isBusy: boolean) => {
  usedBefore = isBusy ? usedSeconds() : undefined
})
setInterval(() => {
  if (usedBefore !== undefined && usedSeconds() - usedBefore > seconds) process.kill(process.pid, "SIGALRM")
}, checkEveryMillis)
