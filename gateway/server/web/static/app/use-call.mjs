// What a panel shows is the value of a call.

import { html, useEffect, useErrorBoundary, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { CallError } from "./protocol.mjs"
import { t, withCode } from "./texts.mjs"

// The value, null until it is there, a function that does another call and asks for it again, and
// one that only asks again.
export function useCall(connection, say, name, args = {}) {
  const [value, setValue] = useState(null)
  const [failure, setFailure] = useState(null)
  // What was shown stays; without it there is nothing to show but why.
  if (value === null && failure) throw failure
  const fail = (error) => {
    if (value === null) setFailure(error)
    else say(error)
  }
  const key = JSON.stringify(args)
  const refresh = () => connection.until(name, args).then(setValue, fail)
  useEffect(() => {
    // Of several questions the last one counts, whichever is answered last.
    let isLast = true
    connection.until(name, args).then((one) => isLast && setValue(one), (error) => isLast && fail(error))
    return () => (isLast = false)
  }, [key])
  // Whether it was done.
  const act = async (other, others) => {
    let isDone = false
    try {
      const sentence = await connection.call(other, others)
      isDone = true
      if (typeof sentence === "string") say({ message: sentence, isGood: true })
    } catch (error) {
      say(error)
    }
    refresh()
    return isDone
  }
  return [value, act, refresh]
}

// Null is a cost that nobody knows.
export const dollars = (amount) => (amount === null ? "$?" : `$${amount.toFixed(4)}`)

export const Wait = () => html`<p class="dim">${t("Connecting …")}</p>`

// What is inside, or the sentence that says why it can't be shown.
export function Refusable({ children }) {
  const [error] = useErrorBoundary()
  if (!error) return children
  if (!(error instanceof CallError)) throw error
  return html`<div role="alert">
    <p class="bad">${visible(error.message)}</p>
    ${error.hint && html`<p>${withCode(visible(error.hint))}</p>`}
  </div>`
}

// What may take minutes, with the seconds since it began. `goesOn`: also when the page is left.
export function Busy({ text, goesOn = false }) {
  const [seconds, setSeconds] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => setSeconds((n) => n + 1), 1000)
    return () => clearInterval(timer)
  }, [])
  return html`<div class="busy">
    <p role="status">${t("Fetching")}: ${visible(text)}</p>
    <progress aria-label=${t("Fetching")}></progress> <span class="dim" aria-hidden="true">${seconds} s</span>
    ${seconds >= 15 && html`<p class="dim">${t("A large repository takes a few minutes.")} ${goesOn && t("You may leave this page; it goes on.")}</p>`}
  </div>`
}

// What went wrong, and ways out.
export const Failure = ({ error, again, leave }) => html`<div class="failure" role="alert">
  <p class="bad">${visible(error.message)}</p>
  ${error.hint && html`<p>${visible(error.hint)}</p>`}
  <p class="actions">
    ${again && html`<button type="button" onClick=${again}>${t("Try again")}</button>`}
    <button type="button" onClick=${leave}>${t("Cancel")}</button>
  </p>
</div>`

// A button that asks once more.
export function Certain({ label, name, onYes }) {
  const [isAsking, setAsking] = useState(false)
  if (!isAsking) return html`<button type="button" aria-label=${`${label}: ${name}`} onClick=${() => setAsking(true)}>${label}</button>`
  return html`<span class="certain" role="group" aria-label=${`${label}: ${name}`}>
    <button type="button" class="bad" ref=${(element) => element?.focus()} onClick=${onYes}>${t("Yes")}, ${label}</button>
    <button type="button" onClick=${() => setAsking(false)}>${t("No")}</button>
  </span>`
}
