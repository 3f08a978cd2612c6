// What a person typed and did not save yet is not lost without a question.

import { t } from "./texts.mjs"

const places = new Set()

// Marks or clears a place that holds changes; `place` is any object of its own.
export function markUnsaved(place, isChanged) {
  if (isChanged) places.add(place)
  else places.delete(place)
}

export const mayLeave = () =>
  places.size === 0 || confirm(t("Changes are not saved. Leave and lose them?"))

// The browser asks in its own words when the page itself is closed or reloaded.
export function askBeforeUnload() {
  addEventListener("beforeunload", (event) => {
    if (places.size > 0) event.preventDefault()
  })
}
