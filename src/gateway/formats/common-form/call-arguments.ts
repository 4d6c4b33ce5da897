import { isJson, type Json, parsedJson } from "../../../kernel/json/parsed-json.ts"

/** Has the text of arguments that are no object: those of a call that was cut. */
const invalidArguments = "_invalid_arguments"

/** The arguments of a call as an object, which providers demand; models often send none for a tool without parameters. */
export const argumentsIn = (text: string): Json => {
  if (text.trim() === "") return {}
  const input = parsedJson(text)
  return isJson(input) ? input : { [invalidArguments]: text }
}

/** The same as a text, which is unchanged where it is an object, or empty. */
export const argumentsText = (text: string): string =>
  text.trim() === "" || isJson(parsedJson(text)) ? text : JSON.stringify(argumentsIn(text))
