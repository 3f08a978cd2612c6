// Hooks and components for panels that show the result of a call.

import { html, useEffect, useErrorBoundary, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { CallError } from "./protocol.mjs"
import { t, withCode } from "./texts.mjs"

// Returns the call's result (null until it arrives), a function that makes another call and then
// refreshes the result, and a function that only refreshes it.
export function useCall(connection, say, name, args = {}) {
  const [value, setValue] = useState(null)
  const [failure, setFailure] = useState(null)
  // A later failure leaves the previous result on the screen; without a result, only the error can be shown.
  if (value === null && failure) throw failure
  const fail = (error) => {
    if (value === null) setFailure(error)
    else say(error)
  }
  const key = JSON.stringify(args)
  const refresh = () => connection.until(name, args).then(setValue, fail)
  useEffect(() => {
    // Only the latest request counts, even if an earlier one is answered after it.
    let isLast = true
    connection.until(name, args).then((result) => isLast && setValue(result), (error) => isLast && fail(error))
    return () => (isLast = false)
  }, [key])
  // Resolves to whether the call succeeded.
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

// Null is an unknown cost.
export const dollars = (amount) => (amount === null ? "$?" : `$${amount.toFixed(4)}`)

export const Wait = () => html`<p class="dim">${t("Connecting …")}</p>`

// The children, or the reason why they can't be shown.
export function Refusable({ children }) {
  const [error] = useErrorBoundary()
  if (!error) return children
  if (!(error instanceof CallError)) throw error
  return html`<div role="alert">
    <p class="bad">${visible(error.message)}</p>
    ${error.hint && html`<p>${withCode(visible(error.hint))}</p>`}
  </div>`
}

// Progress of an operation that may take minutes, with the elapsed seconds. `goesOn`: it continues
// after the person leaves the page.
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

// An error, with buttons to retry and to leave.
export const Failure = ({ error, again, leave }) => html`<div class="failure" role="alert">
  <p class="bad">${visible(error.message)}</p>
  ${error.hint && html`<p>${visible(error.hint)}</p>`}
  <p class="actions">
    ${again && html`<button type="button" onClick=${again}>${t("Try again")}</button>`}
    <button type="button" onClick=${leave}>${t("Cancel")}</button>
  </p>
</div>`

// A button that asks for confirmation.
export function Certain({ label, name, onYes }) {
  const [isAsking, setAsking] = useState(false)
  if (!isAsking) return html`<button type="button" aria-label=${`${label}: ${name}`} onClick=${() => setAsking(true)}>${label}</button>`
  return html`<span class="certain" role="group" aria-label=${`${label}: ${name}`}>
    <button type="button" class="bad" ref=${(element) => element?.focus()} onClick=${onYes}>${t("Yes")}, ${label}</button>
    <button type="button" onClick=${() => setAsking(false)}>${t("No")}</button>
  </span>`
}
