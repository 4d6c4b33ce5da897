import { useSyncExternalStore } from "react"

export const themes = ["system", "light", "dark"] as const
export type Theme = (typeof themes)[number]

const key = "theme"
const changes = new EventTarget()

/** The theme that was chosen in this browser. */
export const chosenTheme = (): Theme => themes.find((theme) => theme === localStorage.getItem(key)) ?? "system"

/** Shows the console in a theme from now on. */
export const applyTheme = (theme: Theme): void => {
  localStorage.setItem(key, theme)
  document.documentElement.style.colorScheme = theme === "system" ? "light dark" : theme
  changes.dispatchEvent(new Event("changed"))
}

const subscribe = (onChange: () => void) => {
  changes.addEventListener("changed", onChange)
  return () => changes.removeEventListener("changed", onChange)
}

export const useTheme = (): Theme => useSyncExternalStore(subscribe, chosenTheme)
