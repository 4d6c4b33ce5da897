/** A control of a form with the limits that its element declares. */
type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement

const limitOf = (control: Control, name: "max" | "maxLength" | "min" | "minLength"): string =>
  String((control as Partial<Record<typeof name, string | number>>)[name] ?? "")

/** What is wrong with a control's value, as its element declares it: in the words of the console, not in those of the browser. */
const faultOf = (control: Control): string => {
  const { validity } = control
  if (validity.valueMissing) return "Fill this in"
  if (validity.badInput) return "Expected a number"
  if (validity.typeMismatch) {
    return control.type === "email"
      ? "Expected an e-mail address, as ada@example.com"
      : "Expected an address, as https://example.com"
  }
  if (validity.tooShort) return `Expected ${limitOf(control, "minLength")} characters or more`
  if (validity.tooLong) return `Expected ${limitOf(control, "maxLength")} characters at most`
  if (validity.rangeUnderflow) return `Expected ${limitOf(control, "min")} or more`
  if (validity.rangeOverflow) return `Expected ${limitOf(control, "max")} at most`
  if (validity.stepMismatch) return "Expected a whole number"
  return control.validationMessage
}

/** What is wrong with the controls of a form, by their ids. */
export const faultsIn = (form: HTMLFormElement): ReadonlyMap<string, string> => {
  const controls = [...form.elements].filter((element): element is Control => "validity" in element)
  return new Map(controls.filter(({ validity }) => !validity.valid).map((control) => [control.id, faultOf(control)]))
}
