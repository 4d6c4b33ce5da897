import schema from "virtual:body/llmAdmin.putConfiguration"
import JsonEditor from "../../kit/texts/json-editor.tsx"

/** The editor of the gateway's document, with the document's schema: loaded when it is opened, since it is large. */
const DocumentEditor = (given: Omit<React.ComponentProps<typeof JsonEditor>, "schema">) => (
  <JsonEditor {...given} schema={schema} />
)

export default DocumentEditor
