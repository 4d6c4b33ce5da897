export { ConsoleLayer as routes } from "./pages.ts"
