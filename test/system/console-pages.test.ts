import { checkPages } from "../console/pages.ts"

checkPages(() => [
  [1280, "light"],
  [1280, "dark"],
  [360, "light"],
  [360, "dark"]
])
