// One message, and the reply that streams.

import { resultOf, textOf } from "./conversation.mjs"
import { html, useLayoutEffect, useMemo, useRef } from "./html.mjs"
import { rendered, visible } from "./markdown.mjs"
import { t } from "./texts.mjs"

const RESULT_CHARS = 20_000

export function Markdown({ text }) {
  const box = useRef()
  useLayoutEffect(() => box.current.replaceChildren(rendered(text)), [text])
  return html`<div class="markdown" ref=${box}></div>`
}

export function Item({ item, talk }) {
  if (item.kind === "user") return html`<${UserMessage} item=${item} />`
  if (item.kind === "assistant") return html`<${Reply} item=${item} talk=${talk} />`
  const text = item.kind === "kore" ? html`<${Markdown} text=${item.text} />` : visible(item.text)
  return html`<div class=${`said ${item.kind}`}>${text}</div>`
}

function UserMessage({ item }) {
  const pictures = item.message.content.filter((part) => part.type === "image")
  const files = item.message.content.filter((part) => part.type === "image_file")
  return html`<article class="user" aria-label=${t("You")}>
    <div class="bubble">${visible(textOf(item.message))}</div>
    ${pictures.map((part) => html`<${Picture} part=${part} />`)}
    ${files.map((part) => html`<p class="dim">${t("picture")}: ${visible(part.path)}</p>`)}
  </article>`
}

const KINDS = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])

function Picture({ part }) {
  if (!KINDS.has(part.media_type)) return null
  return html`<img alt=${t("picture")} src=${`data:${part.media_type};base64,${part.data}`} />`
}

function Reply({ item, talk }) {
  const thoughts = item.message.content.filter((part) => part.type === "thinking" && part.text)
  const text = textOf(item.message)
  const calls = item.message.tool_calls ?? []
  return html`<article class="kore" aria-label="Kore">
    ${thoughts.map((part) => html`<${Thoughts} text=${part.text} />`)}
    ${text.trim() && html`<${Markdown} text=${text} />`}
    ${calls.map((call) => {
      const live = talk.live.get(call.id)
      const result = resultOf(talk, item.seq, call)
      return html`<${Call} key=${call.id} call=${call} live=${live} result=${result} />`
    })}
  </article>`
}

const Thoughts = ({ text }) =>
  html`<details class="thoughts"><summary>${t("thoughts")}</summary><pre>${visible(text)}</pre></details>`

// A call with its arguments and result, folded; while it runs, with what it prints.
export function Call({ call, live, result }) {
  const subject = String(Object.values(call.arguments ?? {})[0] ?? "").replace(/\s+/g, " ")
  const wasOpen = useRef(false)
  const isBad = result?.is_error ?? live?.result?.is_error
  const isOver = result || live?.result
  const shown = result ? textOf(result) : (live?.result?.content ?? live?.output ?? "")
  const diff = live?.result?.diff ?? ""
  const rows = useMemo(() => (diff ? sideBySide(diff) : result && !isBad ? changeOf(call) : []), [diff, result, isBad])
  // What was open while the turn ran does not close at its end.
  wasOpen.current ||= Boolean(diff)
  const state = isBad ? "bad" : isOver ? "over" : "running"
  return html`<details class=${`call ${state}`} open=${wasOpen.current}>
    <summary>
      <span class="state" aria-hidden="true">${isBad ? "✗" : isOver ? "✓" : "●"}</span>
      <b>${visible(call.name)}</b> <span class="subject">${visible(subject.slice(0, 160))}</span>
      ${isBad && html`<span class="badge">${t("failed")}</span>`}
    </summary>
    <pre tabindex="0">${visible(call.raw || JSON.stringify(call.arguments, null, 1))}</pre>
    ${rows.length ? html`<${Rows} rows=${rows} />` : shown && html`<${Output} text=${shown} />`}
  </details>`
}

function Output({ text }) {
  const cut = text.length > RESULT_CHARS ? `\n… (${text.length - RESULT_CHARS})` : ""
  if (looksLikeDiff(text)) return html`<${Diff} text=${text.slice(0, RESULT_CHARS) + cut} />`
  return html`<pre tabindex="0">${visible(text.slice(0, RESULT_CHARS)) + cut}</pre>`
}

const looksLikeDiff = (text) => /^(--- |diff --git )/.test(text) || text.includes("\n@@ ")

// The two sides beside each other where there is room, below each other on a phone.
export function Diff({ text }) {
  return html`<${Rows} rows=${useMemo(() => sideBySide(text), [text])} />`
}

function Rows({ rows }) {
  return html`<div class="diff" role="table" aria-label="diff" tabindex="0">
    ${rows.map(
      ([kind, left, right]) => html`<div class=${kind} role="row">
        <span role="cell" class=${left === null ? "none" : "old"}>${left === null ? "" : visible(left)}</span>
        <span role="cell" class=${right === null ? "none" : "new"}>${right === null ? "" : visible(right)}</span>
      </div>`,
    )}
  </div>`
}

const CHANGES = new Set(["edit_file", "write_file", "append_file"])

// What a stored call changed, from its arguments: a diff is told only while the turn runs.
function changeOf(call) {
  if (!CHANGES.has(call.name)) return []
  const given = call.arguments ?? {}
  const lines = (text) => (typeof text === "string" && text ? text.replace(/\n$/, "").split("\n") : [])
  const edits = Array.isArray(given.edits) ? given.edits : [given]
  return edits.flatMap((one) => beside(lines(one?.old_string), lines(one?.new_string ?? one?.content)))
}

const beside = (old, added) =>
  Array.from({ length: Math.max(old.length, added.length) }, (_, n) => ["change", old[n] ?? null, added[n] ?? null])

function sideBySide(text) {
  const rows = []
  let old = []
  let added = []
  const flush = () => {
    rows.push(...beside(old, added))
    ;[old, added] = [[], []]
  }
  const lines = text.split("\n")
  // A removed line may begin with two more dashes.
  const isName = (n) => lines[n]?.startsWith("--- ") && lines[n + 1]?.startsWith("+++ ")
  for (const [n, line] of lines.entries()) {
    if (/^(@@|diff |index )/.test(line) || isName(n) || isName(n - 1)) {
      flush()
      rows.push(["head", line, null])
    } else if (line.startsWith("-")) {
      if (added.length) flush()
      old.push(line.slice(1))
    } else if (line.startsWith("+")) added.push(line.slice(1))
    else {
      flush()
      rows.push(["same", line.slice(1), line.slice(1)])
    }
  }
  flush()
  return rows
}

// What is whole of a text that streams is drawn once; only its last block is drawn again.
export function Draft({ draft }) {
  const [whole, rest] = useMemo(() => splitAtLastBlock(draft.text), [draft.text])
  return html`<article class="kore draft" aria-label="Kore" aria-busy="true">
    ${draft.thinking && html`<${Thoughts} text=${draft.thinking} />`}
    ${whole && html`<${Markdown} text=${whole} />`}
    ${rest && html`<${Markdown} text=${rest} />`}
    ${!draft.text && html`<p class="dim wait">${t("Kore is thinking")}<i></i></p>`}
  </article>`
}

function splitAtLastBlock(text) {
  let at = -1
  let isFenced = false
  let from = 0
  for (const line of text.split("\n")) {
    if (/^\s*(```|~~~)/.test(line)) isFenced = !isFenced
    // A list or a table goes on after an empty line.
    else if (!isFenced && line === "" && /^[^\s\-*+\d|>]/.test(text.slice(from + 1, from + 2))) at = from
    from += line.length + 1
  }
  return at <= 0 ? ["", text] : [text.slice(0, at), text.slice(at)]
}
