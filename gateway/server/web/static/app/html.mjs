// Preact without a build step: templates are tagged literals.

import { h, render } from "../vendor/preact.mjs"
import htm from "../vendor/htm.mjs"

export const html = htm.bind(h)
export { render }
export { useEffect, useErrorBoundary, useLayoutEffect, useMemo, useRef, useState } from "../vendor/hooks.mjs"
