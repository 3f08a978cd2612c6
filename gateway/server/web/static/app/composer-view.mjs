// Message input: text, files, permission mode and completion.

import { bytesInWords, useAttachments } from "./attachments.mjs"
import { Completion, useCompletion } from "./completion-view.mjs"
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { t } from "./texts.mjs"

const MODES = {
  ask: "Ask before risky steps",
  plan: "Plan only, change nothing",
  "accept-edits": "Edit files without asking",
  auto: "Nothing is asked",
}

export function Composer({ connection, session, folder, isRunning, canStop, mode, chooseMode, send, stop, usage, history, say, children }) {
  const [text, setText] = useDraft(session)
  const [isSending, setSending] = useState(false)
  const attachments = useAttachments(connection, say)
  const { files } = attachments
  const box = useRef()
  const completion = useCompletion(connection, text, setText, folder)
  const recall = useHistory(history, session, text, setText)
  useEffect(() => box.current.focus(), [session])
  useLayoutEffect(() => {
    box.current.style.height = "auto"
    box.current.style.height = `${Math.min(box.current.scrollHeight, 320)}px`
  }, [text])
  const hasProblem = files.some((file) => file.problem)
  const canSend = (text.trim() || files.length > 0) && !hasProblem && !isSending
  const submit = async (event, queue) => {
    event?.preventDefault()
    const said = text.trim()
    if (!canSend) return
    setSending(true)
    setText("")
    attachments.replace([])
    const media = await Promise.all(files.map((file) => file.sent))
    const isSent = media.every(Boolean) && (await send(said, media, queue))
    setSending(false)
    if (isSent) return
    setText((now) => now || said)
    attachments.replace(files)
  }
  const onPaste = (event) => {
    if (!event.clipboardData.files.length) return
    event.preventDefault()
    attachments.add(event.clipboardData.files)
  }
  const onKey = (event) => {
    if (event.isComposing) return
    // If Esc closes the list of choices, it does not also stop the turn.
    if (completion.onKey(event) || recall(event)) return event.stopPropagation()
    if (event.key === "Enter" && !event.shiftKey) submit(event, event.altKey ? "queue" : "steer")
  }
  const cost = usage?.session_cost_usd ?? usage?.cost_usd
  return html`<form class="composer" onSubmit=${(event) => submit(event, "steer")} onPaste=${onPaste}>
    <${DropZone} add=${attachments.add} />
    <div class="column">
      <${Completion} ...${completion} />
      <textarea rows="1" aria-autocomplete="list" aria-controls=${completion.choices.length ? "completion" : null} aria-activedescendant=${completion.choices.length ? `choice-${completion.at}` : null} ref=${box} value=${text} aria-label=${t("Message")} placeholder=${t("What would you like to do?")} title=${t("Enter sends, Alt+Enter sends for after the running turn, Shift+Enter makes a new line")} onInput=${(event) => setText(event.target.value)} onKeyDown=${onKey}></textarea>
      ${files.length > 0 && html`<ul class="files">${files.map((file) => html`<${Attachment} entry=${file} remove=${attachments.remove} />`)}</ul>`}
      <div class="tools">
        <label class="attach" title=${t("Add files")}>
          <span aria-hidden="true">⊕</span><span class="unseen">${t("Add files")}</span>
          <input type="file" multiple class="unseen" onChange=${(event) => (attachments.add(event.target.files), (event.target.value = ""))} />
        </label>
        <select aria-label=${t("Mode")} value=${mode} onChange=${(event) => chooseMode(event.target.value)}>
          ${Object.entries(MODES).map(([value, label]) => html`<option value=${value}>${t(label)}</option>`)}
        </select>
        ${children}
        <span class="dim usage">
          ${usage && `${(usage.usage.input + usage.usage.output).toLocaleString()} ${t("tokens")}`}
          ${cost != null && ` · $${cost.toFixed(4)}`}
        </span>
        ${canStop && html`<button type="button" class="stop" onClick=${stop}>${t("Stop")} <kbd>Esc</kbd></button>`}
        <button class="send" disabled=${!canSend}>${t("Send")}</button>
      </div>
    </div>
  </form>`
}

// Up and Down browse earlier messages if the field is empty or shows one of them.
function useHistory(history, session, text, setText) {
  const place = useRef(null)
  useEffect(() => void (place.current = null), [session])
  return (event) => {
    if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return false
    const isRecalled = place.current !== null && history[place.current] === text
    if (text && !isRecalled) return false
    const next = (isRecalled ? place.current : history.length) + (event.key === "ArrowUp" ? -1 : 1)
    if (next < 0 || next > history.length || (!isRecalled && next > history.length - 1)) return false
    event.preventDefault()
    place.current = next
    setText(history[next] ?? "")
    return true
  }
}

// Unsent text stays with its session, even after a reload.
export function keepDraft(session, text) {
  if (text) sessionStorage.setItem(`draft:${session ?? ""}`, text)
  else sessionStorage.removeItem(`draft:${session ?? ""}`)
}

export function moveDraft(from, to) {
  keepDraft(to, draftOf(from))
  keepDraft(from, "")
}

const draftOf = (session) => sessionStorage.getItem(`draft:${session ?? ""}`) ?? ""

function useDraft(session) {
  const kept = () => draftOf(session)
  const [text, setText] = useState(kept)
  useLayoutEffect(() => setText(kept()), [session])
  const change = (next) =>
    setText((now) => {
      const changed = typeof next === "function" ? next(now) : next
      keepDraft(session, changed)
      return changed
    })
  return [text, change]
}

function Attachment({ entry, remove }) {
  const { file, share, media, problem } = entry
  const name = visible(file.name)
  return html`<li class=${problem ? "bad" : ""}>
    <span class="name">${name}</span>
    <span class="dim">${problem ? visible(problem) : bytesInWords(file.size)}</span>
    ${!media && !problem && html`<progress aria-label=${`${t("Sending")}: ${name}`} value=${share || null} max="1"></progress>`}
    <button type="button" aria-label=${`${t("Remove")}: ${name}`} onClick=${() => remove(entry)}>×</button>
  </li>`
}

// Files may be dropped anywhere on the page; the browser never opens them instead of the page.
function DropZone({ add }) {
  const [isOver, setOver] = useState(false)
  const latest = useRef(add)
  latest.current = add
  useEffect(() => {
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files")
    const over = (event) => {
      if (!hasFiles(event)) return
      event.preventDefault()
      setOver(true)
    }
    const leave = (event) => event.relatedTarget === null && setOver(false)
    const drop = (event) => {
      if (!hasFiles(event)) return
      event.preventDefault()
      setOver(false)
      latest.current(event.dataTransfer.files)
    }
    addEventListener("dragover", over)
    addEventListener("dragleave", leave)
    addEventListener("drop", drop)
    return () => {
      removeEventListener("dragover", over)
      removeEventListener("dragleave", leave)
      removeEventListener("drop", drop)
    }
  }, [])
  return isOver && html`<p class="drop" aria-hidden="true">${t("Drop files to add them")}</p>`
}
