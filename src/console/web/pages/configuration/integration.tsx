export { IntegrationPage as default } from "./integrations.tsx"
