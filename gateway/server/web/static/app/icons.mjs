// Icons as drawings, because a machine without an emoji font shows boxes for emoji.

import { html } from "./html.mjs"

const Icon = ({ children }) => html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round">${children}</svg>`

export const BellIcon = ({ isOff }) => html`<${Icon}>
  <path d="M6 17V11a6 6 0 0 1 12 0v6l2 2H4zM10 21h4" />
  ${isOff && html`<path d="M3 3l18 18" />`}
<//>`

export const TargetIcon = () => html`<${Icon}>
  <circle cx="12" cy="12" r="9" /><circle cx="12" cy="12" r="5" /><circle cx="12" cy="12" r="1" />
<//>`

export const FileIcon = () => html`<${Icon}><path d="M6 3h8l4 4v14H6zM14 3v4h4" /><//>`
