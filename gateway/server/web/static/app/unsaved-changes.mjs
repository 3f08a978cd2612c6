// Guard against losing unsaved input without a question.

import { t } from "./texts.mjs"

const places = new Set()

// Marks a place as changed or saved; `place` is any unique object.
export function markUnsaved(place, isChanged) {
  if (isChanged) places.add(place)
  else places.delete(place)
}

export const mayLeave = () =>
  places.size === 0 || confirm(t("Changes are not saved. Leave and lose them?"))

// When the page itself is closed or reloaded, the browser asks, with its own text.
export function askBeforeUnload() {
  addEventListener("beforeunload", (event) => {
    if (places.size > 0) event.preventDefault()
  })
}
