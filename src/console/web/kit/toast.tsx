import { useEffect, useState } from "react"

const announcements = new EventTarget()

/** Says for a few seconds what has happened, also to screen readers. */
export const announce = (text: string): void => {
  announcements.dispatchEvent(new CustomEvent("said", { detail: text }))
}

/** Where announcements appear. */
export const Announcements = () => {
  const [text, setText] = useState("")
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>
    const onSaid = (event: Event) => {
      setText((event as CustomEvent<string>).detail)
      clearTimeout(timer)
      timer = setTimeout(() => setText(""), 5_000)
    }
    announcements.addEventListener("said", onSaid)
    return () => {
      announcements.removeEventListener("said", onSaid)
      clearTimeout(timer)
    }
  }, [])
  return (
    <div className="toast" role="status" data-shown={text !== ""}>
      {text}
    </div>
  )
}
