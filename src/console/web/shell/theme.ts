export const themes = ["system", "light", "dark"] as const
export type Theme = (typeof themes)[number]

const key = "theme"

/** The theme that was chosen in this browser. */
export const chosenTheme = (): Theme => themes.find((theme) => theme === localStorage.getItem(key)) ?? "system"

/** Shows the console in a theme from now on. */
export const applyTheme = (theme: Theme): void => {
  localStorage.setItem(key, theme)
  document.documentElement.style.colorScheme = theme === "system" ? "light dark" : theme
}
