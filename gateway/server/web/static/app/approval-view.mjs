// An approval question. All lines, answers and labels come from the server, with hidden characters
// escaped; nothing is computed here.

import { html, useEffect, useRef, useState } from "./html.mjs"
import { t } from "./texts.mjs"

// Ignore keys that were pressed just before the question appeared.
const KEY_DELAY_MS = 500

export function Approval({ asked, answer }) {
  return asked.request.server_question
    ? html`<${ServerQuestion} asked=${asked} answer=${answer} />`
    : html`<${CallQuestion} asked=${asked} answer=${answer} />`
}

// All lines of a question; `onSeen` is called once the end of the last line has been on the screen.
function Lines({ lines, onSeen }) {
  const end = useRef()
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) onSeen()
    })
    observer.observe(end.current)
    return () => observer.disconnect()
  }, [])
  return html`<div class="lines" role="group" tabindex="0" aria-label=${lines.map((line) => line.text).join("\n")}>
    ${lines.map((line) => html`<div class=${`line ${line.kind}${line.kind === "diff" ? mark(line.text) : ""}`}>${line.text}</div>`)}
    <div class="end" ref=${end}></div>
  </div>`
}

function mark(text) {
  return text[0] === "+" ? " added" : text[0] === "-" ? " removed" : ""
}

function CallQuestion({ asked, answer }) {
  const box = useRef()
  const [words, setWords] = useState("")
  const [isSeen, setSeen] = useState(false)
  const shownAt = useRef(performance.now())
  const { title, lines, options } = asked.view
  useEffect(() => {
    box.current.focus()
    return () => document.querySelector(".composer textarea")?.focus()
  }, [])
  const give = (option) => {
    if (option.answer !== "deny" && !isSeen) return
    if (performance.now() - shownAt.current > KEY_DELAY_MS) answer(asked, option, words)
  }
  const onKey = (event) => {
    if (event.target.tagName === "INPUT" || event.ctrlKey || event.metaKey || event.altKey) return
    const option = options.find((choice) => choice.key === event.key)
    if (!option) return
    event.preventDefault()
    give(option)
  }
  return html`<section class="approval" role="alertdialog" aria-label=${t("Question")} tabindex="-1" ref=${box} onKeyDown=${onKey}>
    <h3>${t("Question")} ${asked.number}: ${title}</h3>
    <${Lines} lines=${lines} onSeen=${() => setSeen(true)} />
    ${!isSeen && html`<p class="dim">${t("Scroll to the end of the question to allow it.")}</p>`}
    <p class="actions">
      ${options.map(
        (option) => html`<button type="button" disabled=${option.answer !== "deny" && !isSeen} class=${`answer ${option.answer === "once" ? "main" : option.answer === "deny" ? "no" : ""}`} onClick=${() => give(option)}>
          ${option.label} <kbd>${option.key}</kbd>
        </button>`,
      )}
    </p>
    <input aria-label=${t("Why not? (told to the model)")} placeholder=${t("Why not? (told to the model)")} value=${words} onInput=${(event) => setWords(event.target.value)} />
  </section>`
}

function ServerQuestion({ asked, answer }) {
  const { takes_text, is_secret } = asked.request.server_question
  const { title, lines, options } = asked.view
  const [words, setWords] = useState("")
  const [isSeen, setSeen] = useState(false)
  const give = (event) => {
    event.preventDefault()
    if (isSeen) answer(asked, { answer: "once", scope: "call" }, words)
  }
  return html`<section class="approval" role="alertdialog" aria-label=${t("Question")}>
    <h3>${t("Question")} ${asked.number}: ${title}</h3>
    <${Lines} lines=${lines} onSeen=${() => setSeen(true)} />
    <p class="actions">
      ${options.map(
        (option) => html`<button type="button" disabled=${option.answer !== "deny" && !isSeen} class=${`answer ${option.answer === "deny" ? "no" : ""}`} onClick=${() => answer(asked, option, option.words)}>${option.label}</button>`,
      )}
    </p>
    ${takes_text &&
    html`<form onSubmit=${give}>
      <input type=${is_secret ? "password" : "text"} aria-label=${t("Answer")} value=${words} onInput=${(event) => setWords(event.target.value)} />
      <button disabled=${!isSeen}>${t("Answer")}</button>
    </form>`}
  </section>`
}
