// A message, and the reply that is being streamed.

import { blockOf, resultOf, textOf } from "./conversation.mjs"
import { html, useLayoutEffect, useMemo, useRef, useState } from "./html.mjs"
import { FileIcon } from "./icons.mjs"
import { plain, rendered, visible } from "./markdown.mjs"
import { t } from "./texts.mjs"

const MAX_RESULT_CHARS = 20_000

export function Markdown({ text }) {
  const box = useRef()
  useLayoutEffect(() => box.current.replaceChildren(rendered(text)), [text])
  return html`<div class="markdown" ref=${box}></div>`
}

export function Item({ item, talk, fetchFile, branch }) {
  if (item.kind === "user") return html`<${UserMessage} item=${item} branch=${branch} />`
  if (item.kind === "assistant") return html`<${Reply} ...${{ item, talk, fetchFile, branch }} />`
  const text = item.kind === "kore" ? html`<${Markdown} text=${item.text} />` : visible(item.text)
  return html`<div class=${`said ${item.kind} ${item.isFailure ? "failure" : ""}`}>${text}</div>`
}

function UserMessage({ item, branch }) {
  const said = textOf(item.message)
  const pictures = item.message.content.filter((part) => part.type === "image")
  const files = item.message.content.filter((part) => part.type === "image_file")
  const attachments = item.message.content.flatMap((part) => (part.type === "context" ? attachmentsIn(part.text) : []))
  return html`<article class="user" aria-label=${t("You")}>
    <div class="bubble-row">
      ${branch && item.seq && html`<button type="button" class="edit" title=${t("Edit in a branch")} aria-label=${t("Edit in a branch")} onClick=${() => branch(item.seq - 1, said)}>✎</button>`}
      ${said && html`<div class="bubble">${visible(said)}</div>`}
    </div>
    ${pictures.map((part) => html`<${Picture} part=${part} />`)}
    ${attachments.map(([name, size]) => html`<p class="attachment"><${FileIcon} /> ${visible(name)} <span class="dim">${size}</span></p>`)}
    ${files.map((part) => html`<p class="dim">${t("picture")}: ${visible(part.path)}</p>`)}
  </article>`
}

// The text for the model describes each file in a separate line.
const attachmentsIn = (text) =>
  [...text.matchAll(/^\[(?:document|video|audio) "(.+)" in \S.* \(([\d.]+ (?:bytes|KB|MB))\)/gm)].map(([, name, size]) => [name, size])

const KINDS = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])

function Picture({ part }) {
  if (!KINDS.has(part.media_type)) return null
  return html`<img alt=${t("picture")} src=${`data:${part.media_type};base64,${part.data}`} />`
}

function Reply({ item, talk, fetchFile, branch }) {
  const thoughts = item.message.content.filter((part) => part.type === "thinking" && part.text)
  const text = textOf(item.message)
  const calls = item.message.tool_calls ?? []
  return html`<article class="kore" aria-label="Kore">
    ${thoughts.map((part) => html`<${Thoughts} text=${part.text} />`)}
    ${text.trim() && html`<${Markdown} text=${text} />`}
    ${calls.map((call) => {
      const live = talk.live.get(call.id)
      const result = resultOf(talk, item.seq, call)
      const block = blockOf(talk, item.seq, call)
      const paths = result && !result.is_error ? (block.files ?? []) : []
      return html`<${Call} key=${call.id} call=${call} block=${block} live=${live} result=${result} />
        ${paths.length > 0 && html`<${SentFiles} seq=${item.seq} call=${call} paths=${paths} fetchFile=${fetchFile} />`}`
    })}
    ${branch &&
    !calls.length &&
    html`<p class="message-actions">
      <button type="button" title=${t("Copy")} aria-label=${t("Copy")} onClick=${() => navigator.clipboard.writeText(text)}>❐</button>
      <button type="button" title=${t("Branch from here")} aria-label=${t("Branch from here")} onClick=${() => branch(item.seq, "")}>↳</button>
    </p>`}
  </article>`
}

function SentFiles({ seq, call, paths, fetchFile }) {
  const caption = call.arguments?.caption
  return html`<div class="sent-files">
    ${caption && html`<p>${visible(String(caption))}</p>`}
    ${paths.map((path, number) => html`<${SentFile} path=${String(path)} save=${(onShare) => fetchFile({ seq, call: call.id, number }, onShare)} />`)}
  </div>`
}

function SentFile({ path, save }) {
  const [share, setShare] = useState(null)
  const name = visible(path.split("/").pop())
  const onClick = async () => {
    setShare(0)
    await save(setShare)
    setShare(null)
  }
  return html`<button type="button" class="sent-file" disabled=${share !== null} title=${t("Save")} onClick=${onClick}>
    <span aria-hidden="true">↓</span> ${name} ${share !== null && html`<progress aria-label=${name} value=${share} max="1"></progress>`}
  </button>`
}

const Thoughts = ({ text }) =>
  html`<details class="thoughts"><summary>${t("thoughts")}</summary><pre>${visible(text)}</pre></details>`

// A collapsible call with its arguments and result, and its output while it runs.
export function Call({ call, block = call.block, live, result }) {
  const diff = live?.result?.diff ?? (result && block.diff)
  const isBad = result?.is_error ?? live?.result?.is_error
  const isOver = result || live?.result
  const shown = result ? textOf(result) : (live?.result?.content ?? live?.output ?? "")
  const state = isBad ? "bad" : isOver ? "over" : "running"
  return html`<details class=${`call ${state}`} open=${Boolean(diff)}>
    <summary>
      <span class="state" aria-hidden="true">${isBad ? "✗" : isOver ? "✓" : "●"}</span>
      <${Title} block=${block} />
      ${isBad && html`<span class="badge">${t("failed")}</span>`}
      ${block.elapsed && html`<span class="dim">${block.elapsed}</span>`}
    </summary>
    <pre tabindex="0">${call.name && `${visible(call.name)} `}${visible(call.raw || JSON.stringify(call.arguments, null, 1))}</pre>
    ${diff ? html`<${Diff} text=${diff} />` : shown && html`<${Output} text=${shown} />`}
  </details>`
}

function Title({ block: { title = [], detail = "" } }) {
  const parts = title.map(([text, argument]) => (argument ? html`<span class="subject">${visible(text)}</span>` : html`<b>${visible(text)}</b>`))
  return html`<span class="title">${parts}${detail && html` <span class="subject">${visible(detail)}</span>`}</span>`
}

function Output({ text }) {
  const cut = text.length > MAX_RESULT_CHARS ? `\n… (${text.length - MAX_RESULT_CHARS})` : ""
  if (looksLikeDiff(text)) return html`<${Diff} text=${text.slice(0, MAX_RESULT_CHARS) + cut} />`
  return html`<pre tabindex="0">${visible(plain(text.slice(0, MAX_RESULT_CHARS))) + cut}</pre>`
}

const looksLikeDiff = (text) => /^(--- |diff --git )/.test(text) || text.includes("\n@@ ")

// The two sides of a diff, next to each other if there is room, otherwise one below the other.
export function Diff({ text }) {
  const rows = useMemo(() => sideBySide(text), [text])
  return html`<div class="diff" role="table" aria-label="diff" tabindex="0">
    ${rows.map(
      ([kind, left, right]) => html`<div class=${kind} role="row">
        <span role="cell" class=${left === null ? "none" : "old"}>${left === null ? "" : visible(left)}</span>
        <span role="cell" class=${right === null ? "none" : "new"}>${right === null ? "" : visible(right)}</span>
      </div>`,
    )}
  </div>`
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
  // Remaining lines of the hunk: a removed line that begins with "--" looks like a file name.
  let left = { old: 0, added: 0 }
  let hasHunks = false
  const isNames = (n) => lines[n]?.startsWith("--- ") && lines[n + 1]?.startsWith("+++ ")
  for (const [n, line] of lines.entries()) {
    const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line)
    const isInHunk = hasHunks ? left.old > 0 || left.added > 0 : n > 1 && !hunk
    if (!isInHunk && (hunk || /^(diff |index )/.test(line) || isNames(n) || isNames(n - 1))) {
      flush()
      rows.push(["head", line, null])
      hasHunks ||= Boolean(hunk)
      if (hunk) left = { old: Number(hunk[1] ?? 1), added: Number(hunk[2] ?? 1) }
    } else if (line.startsWith("-")) {
      if (added.length) flush()
      old.push(line.slice(1))
      left.old--
    } else if (line.startsWith("+")) {
      added.push(line.slice(1))
      left.added--
    } else {
      flush()
      rows.push(["same", line.slice(1), line.slice(1)])
      left.old--
      left.added--
    }
  }
  flush()
  return rows
}

// Complete blocks of a streamed text are rendered once; only the last block is rendered again.
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
    // A list or a table may continue after an empty line.
    else if (!isFenced && line === "" && /^[^\s\-*+\d|>]/.test(text.slice(from + 1, from + 2))) at = from
    from += line.length + 1
  }
  return at <= 0 ? ["", text] : [text.slice(0, at), text.slice(at)]
}
