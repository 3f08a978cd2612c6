// A question before something is done: the exact call, and what may be answered.

import { html, useEffect, useRef, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { Diff } from "./message-view.mjs"
import { t } from "./texts.mjs"

const LABELS = { once: "Allow once", session: "Allow for this session", always: "Always", deny: "Deny" }
const KEYS = { once: "y", session: "s", always: "a", deny: "n" }
// What was on its way when the question appeared is no answer to it.
const ARMED_AFTER_MS = 500

export function Approval({ asked, answer }) {
  return asked.server_question
    ? html`<${ServerQuestion} asked=${asked} answer=${answer} />`
    : html`<${CallQuestion} asked=${asked} answer=${answer} />`
}

function CallQuestion({ asked, answer }) {
  const box = useRef()
  const [words, setWords] = useState("")
  const shownAt = useRef(performance.now())
  useEffect(() => {
    box.current.focus()
    return () => document.querySelector(".composer textarea")?.focus()
  }, [])
  const give = (kind) => {
    if (performance.now() - shownAt.current > ARMED_AFTER_MS) answer(asked, kind, words)
  }
  const onKey = (event) => {
    if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return
    const kind = asked.answers.find((one) => KEYS[one] === event.key)
    if (!kind) return
    event.preventDefault()
    give(kind)
  }
  const command = asked.arguments.command
  return html`<section class="approval" role="alertdialog" aria-label=${t("Question")} tabindex="-1" ref=${box} onKeyDown=${onKey}>
    <h3>${t("Question")} ${asked.number}: ${visible(asked.tool)}</h3>
    ${command
      ? html`<pre tabindex="0">${visible(String(command))}</pre>`
      : html`<pre tabindex="0">${visible(JSON.stringify(asked.arguments, null, 1))}</pre>`}
    ${asked.folder && html`<p class="dim">${visible(asked.folder)}</p>`}
    ${asked.diff && html`<${Diff} text=${asked.diff} />`}
    ${asked.sends && html`<p class="dim">${visible(asked.sends)}</p>`}
    <p>${visible(asked.reason)}</p>
    <p class="actions">
      ${asked.answers.map(
        (kind) => html`<button type="button" class=${`answer ${kind === "once" ? "main" : kind === "deny" ? "no" : ""}`} onClick=${() => give(kind)}>
          ${t(LABELS[kind])} <kbd>${KEYS[kind]}</kbd>
        </button>`,
      )}
    </p>
    <input aria-label=${t("Why not? (told to the model)")} placeholder=${t("Why not? (told to the model)")} value=${words} onInput=${(event) => setWords(event.target.value)} />
  </section>`
}

function ServerQuestion({ asked, answer }) {
  const { server, text, choices, takes_text, is_secret } = asked.server_question
  const [words, setWords] = useState("")
  const give = (event) => {
    event.preventDefault()
    answer(asked, "once", words)
  }
  return html`<section class="approval" role="alertdialog" aria-label=${t("Question")}>
    <h3>${t("Question")}: ${visible(server)}</h3>
    <p>${visible(text)}</p>
    <p class="actions">
      ${choices.map((one) => html`<button type="button" onClick=${() => answer(asked, "once", one)}>${visible(one)}</button>`)}
      <button type="button" class="answer no" onClick=${() => answer(asked, "deny", "")}>${t("Deny")}</button>
    </p>
    ${takes_text &&
    html`<form onSubmit=${give}>
      <input type=${is_secret ? "password" : "text"} aria-label=${t("Answer")} value=${words} onInput=${(event) => setWords(event.target.value)} />
      <button>${t("Answer")}</button>
    </form>`}
  </section>`
}
