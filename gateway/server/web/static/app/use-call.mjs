// What a panel shows is the value of a call.

import { html, useEffect, useState } from "./html.mjs"
import { t } from "./texts.mjs"

// The value, null until it is there, a function that does another call and asks for it again, and one
// that only asks again.
export function useCall(connection, say, name, args = {}) {
  const [value, setValue] = useState(null)
  const key = JSON.stringify(args)
  const refresh = () => connection.until(name, args).then(setValue, say)
  useEffect(() => void refresh(), [key])
  const act = async (other, others) => {
    try {
      const sentence = await connection.call(other, others)
      if (typeof sentence === "string") say({ message: sentence, isGood: true })
    } catch (error) {
      say(error)
    }
    refresh()
  }
  return [value, act, refresh]
}

// Null is a cost that nobody knows.
export const dollars = (amount) => (amount === null ? "$?" : `$${amount.toFixed(4)}`)

export const Wait = () => html`<p class="dim">${t("Connecting …")}</p>`
