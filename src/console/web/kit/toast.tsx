import { useEffect, useState } from "react"
import { Link } from "wouter"

/** What can follow an announcement. */
export interface Following {
  /** Takes back what was announced. */
  readonly undo?: (() => Promise<unknown>) | undefined
  /** Where what was announced can be seen. */
  readonly link?: readonly [href: string, text: string] | undefined
}

interface Announcement extends Following {
  readonly text: string
}

const announcements = new EventTarget()

/** Says for a few seconds what has happened, also to screen readers. */
export const announce = (text: string, following: Following = {}): void => {
  announcements.dispatchEvent(new CustomEvent<Announcement>("said", { detail: { text, ...following } }))
}

const shownMilliseconds = 5_000
/** What can be pressed stays longer, and while it is pointed at. */
const pressedMilliseconds = 12_000

/** Where announcements appear. */
export const Announcements = () => {
  const [said, say] = useState<Announcement>({ text: "" })
  const [isHeld, hold] = useState(false)
  const [isUndoing, setUndoing] = useState(false)
  const { link, text, undo } = said
  useEffect(() => {
    const onSaid = (event: Event) => {
      say((event as CustomEvent<Announcement>).detail)
      hold(false)
    }
    announcements.addEventListener("said", onSaid)
    return () => announcements.removeEventListener("said", onSaid)
  }, [])
  useEffect(() => {
    if (text === "" || isHeld || isUndoing) return
    const timer = setTimeout(
      () => say({ text: "" }),
      link === undefined && undo === undefined ? shownMilliseconds : pressedMilliseconds
    )
    return () => clearTimeout(timer)
  }, [said, isHeld, isUndoing])
  const takeBack = async () => {
    setUndoing(true)
    await undo?.().then(
      () => announce(`Undone: ${text}`),
      (cause: unknown) => announce(`It could not be undone. ${cause instanceof Error ? cause.message : ""}`)
    )
    setUndoing(false)
  }
  return (
    <div
      className="toast"
      role="status"
      data-shown={text !== ""}
      onPointerEnter={() => hold(true)}
      onPointerLeave={() => hold(false)}
      onFocus={() => hold(true)}
      onBlur={() => hold(false)}
    >
      <span>{text}</span>
      {undo === undefined ? null : (
        <button type="button" disabled={isUndoing} onClick={() => void takeBack()}>
          Undo
        </button>
      )}
      {link === undefined ? null : (
        <Link href={link[0]} onClick={() => say({ text: "" })}>
          {link[1]}
        </Link>
      )}
    </div>
  )
}
