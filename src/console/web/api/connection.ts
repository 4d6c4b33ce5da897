import { useSyncExternalStore } from "react"

/** Whether the service can be reached: not without a network, nor while it gives no answer. */
export type Connection = "connected" | "offline" | "unreachable"

const changes = new EventTarget()
let answers = true

/** Notes whether the last request got an answer. */
export const noteAnswer = (isAnswered: boolean): void => {
  if (answers === isAnswered) return
  answers = isAnswered
  changes.dispatchEvent(new Event("changed"))
}

const subscribe = (onChange: () => void) => {
  changes.addEventListener("changed", onChange)
  for (const event of ["online", "offline"]) addEventListener(event, onChange)
  return () => {
    changes.removeEventListener("changed", onChange)
    for (const event of ["online", "offline"]) removeEventListener(event, onChange)
  }
}

const connection = (): Connection => (!navigator.onLine ? "offline" : answers ? "connected" : "unreachable")

export const useConnection = (): Connection => useSyncExternalStore(subscribe, connection)
