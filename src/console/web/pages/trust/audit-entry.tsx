export { AuditEntry as default } from "./audit.tsx"
