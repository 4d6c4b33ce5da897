import { useEffect, useRef } from "react"

/** What keys of the keyboard do on a page, by their names; neither in a field nor in a dialog, and not with a modifier. */
export const useKeys = (keys: Readonly<Record<string, () => void>>): void => {
  const current = useRef(keys)
  useEffect(() => {
    current.current = keys
  })
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const { altKey, ctrlKey, defaultPrevented, key, metaKey, target } = event
      if (altKey || ctrlKey || metaKey || defaultPrevented) return
      if (target instanceof Element && target.closest("input, textarea, select, dialog, [role=dialog]") !== null) return
      current.current[key]?.()
    }
    addEventListener("keydown", onKey)
    return () => removeEventListener("keydown", onKey)
  }, [])
}
