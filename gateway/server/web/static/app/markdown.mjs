// Renders untrusted markdown: parsed by marked, sanitized by DOMPurify.

import { marked } from "../vendor/marked.mjs"
import DOMPurify from "../vendor/purify.mjs"
import { t } from "./texts.mjs"

const TAGS = [
  ...["a", "b", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr"],
  ...["i", "li", "ol", "p", "pre", "s", "strong", "sub", "sup", "table", "tbody", "td", "th"],
  ...["thead", "tr", "ul"],
]
const OPTIONS = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ["href", "start", "class"],
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true,
}
const LANGUAGES = new Set(
  "bash c cpp css diff go java javascript json markdown python rust sql typescript xml yaml".split(" "),
)
const ALIASES = {
  ...{ "c++": "cpp", console: "bash", h: "c", html: "xml", js: "javascript", jsx: "javascript" },
  ...{ md: "markdown", py: "python", rs: "rust", sh: "bash", shell: "bash", svg: "xml" },
  ...{ ts: "typescript", tsx: "typescript", yml: "yaml", patch: "diff", zsh: "bash" },
}
const MAX_HIGHLIGHT_CHARS = 50_000

// HTML is shown as text; only markdown creates elements.
marked.use({
  gfm: true,
  breaks: false,
  renderer: {
    html: ({ text }) => escape(text),
    // Loading a remote picture would tell its server that the text was read.
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
  },
})

// Returns the text as a document fragment.
export function rendered(text) {
  const html = marked.parse(visible(text), { async: false })
  const fragment = DOMPurify.sanitize(html, OPTIONS)
  for (const link of fragment.querySelectorAll("a")) {
    link.target = "_blank"
    link.rel = "noopener noreferrer nofollow"
    const address = link.getAttribute("href")
    if (address && !spells(link.textContent.trim(), address)) link.after(addressOf(address))
  }
  for (const element of fragment.querySelectorAll("[class]")) {
    if (!/^(?:address|language-[\w+#.-]+)$/.test(element.className)) element.removeAttribute("class")
  }
  for (const pre of fragment.querySelectorAll("pre")) dress(pre)
  return fragment
}

// Returns whether the text of a link is its address.
const spells = (text, address) =>
  ["", "https://", "http://", "mailto:"].some((scheme) => [address, address + "/"].includes(scheme + text) ||
    scheme + text + "/" === address)

// The address is shown, because the text of a link may name a different one.
function addressOf(address) {
  const element = document.createElement("span")
  element.className = "address"
  element.textContent = ` (${address})`
  return element
}

// Makes characters visible that hide text or reverse its direction.
export const visible = (text) =>
  text.replace(/[\u0000-\u0008\u000b-\u001f\u007f\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, (c) =>
    c === "\r" ? "" : `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  )

// Removes terminal colors; of a line that was overwritten, only the final state remains.
export const plain = (text) =>
  text
    .replace(/\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[@-Z\\-_])/g, "")
    .replace(/[^\n]*\r(?!\n|$)/g, "")

function dress(pre) {
  const box = document.createElement("div")
  box.className = "code"
  pre.replaceWith(box)
  const copy = document.createElement("button")
  copy.type = "button"
  copy.className = "copy"
  copy.textContent = t("Copy")
  box.append(pre, copy)
  pre.tabIndex = 0
  const code = pre.querySelector("code") ?? pre
  const name = /language-([\w+#.-]+)/.exec(code.className)?.[1]?.toLowerCase()
  const language = ALIASES[name] ?? name
  if (LANGUAGES.has(language) && code.textContent.length < MAX_HIGHLIGHT_CHARS) highlight(code, language)
}

// The modules load with the first code block of a language. If they fail, the code stays plain.
async function highlight(code, language) {
  const modules = [import("../vendor/highlight.mjs"), import(`../vendor/languages/${language}.mjs`)]
  const [library, grammar] = (await Promise.all(modules).catch(() => [])).map((module) => module.default)
  if (!library) return
  if (!library.getLanguage(language)) library.registerLanguage(language, grammar)
  const html = library.highlight(code.textContent, { language, ignoreIllegals: true }).value
  const fragment = DOMPurify.sanitize(html, {
    ALLOWED_TAGS: ["span"],
    ALLOWED_ATTR: ["class"],
    RETURN_DOM_FRAGMENT: true,
  })
  code.replaceChildren(fragment)
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button.copy")
  if (!button) return
  await navigator.clipboard.writeText(button.parentElement.querySelector("pre").textContent)
  button.textContent = t("Copied")
  setTimeout(() => (button.textContent = t("Copy")), 1500)
})

const escape = (text) =>
  text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`)
