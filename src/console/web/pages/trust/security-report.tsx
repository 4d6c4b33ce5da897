export { Report as default } from "./security.tsx"
