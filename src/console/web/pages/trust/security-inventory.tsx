export { Inventory as default } from "./security.tsx"
