// File browser for the owner's folders: a tree, and an editor for one file.

import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.mjs"
import { visible } from "./markdown.mjs"
import { Diff } from "./message-view.mjs"
import { t } from "./texts.mjs"
import { markUnsaved } from "./unsaved-changes.mjs"
import { Certain, useCall, Wait } from "./use-call.mjs"

// Files may change without an event, so open folders are listed again at this interval.
const POLL_INTERVAL_MS = 5_000

export function Files({ connection, say }) {
  const [places] = useCall(connection, say, "list_places")
  const [place, setPlace] = useState(null)
  const [path, setPath] = useState(null)
  const [chosen, setChosen] = useState(null)
  const [isChanged, setChanged] = useState(false)
  const [onDisk, setOnDisk] = useState(null)
  const [look, setLook] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => document.visibilityState === "visible" && setLook((n) => n + 1), POLL_INTERVAL_MS)
    return () => clearInterval(timer)
  }, [])
  if (!places) return html`<${Wait} />`
  const current = place ?? places[0]
  const choose = (event) => {
    setPlace(event.target.value)
    setPath(null)
    setChosen(null)
  }
  const open = (newPath) => {
    setPath(newPath)
    setOnDisk(null)
    setChosen({ path: newPath, isFolder: false })
  }
  // After a change: refresh the tree, and close a file that no longer exists.
  const onDone = (gone, opened) => {
    setLook((n) => n + 1)
    if (gone !== null && (path === gone || path?.startsWith(`${gone}/`))) setPath(null)
    if (gone !== null) setChosen(null)
    if (opened) open(opened)
  }
  const tree = { connection, say, place: current, open: path, chosen, look, isLocked: isChanged, onOpen: open, onChoose: setChosen, onSeen: setOnDisk }
  return html`<div class="project-files">
    <nav aria-label=${t("Files")}>
      <select aria-label=${t("Folder")} value=${current} disabled=${isChanged} onChange=${choose}>
        ${places.map((name) => html`<option value=${name}>${visible(name)}</option>`)}
      </select>
      <${Operations} key=${current} ...${{ connection, say, place: current, chosen, isLocked: isChanged, onDone }} />
      <${Folder} key=${current} ...${tree} path="" />
      <${OpenFile} isLocked=${isChanged} onOpen=${open} />
    </nav>
    ${path === null
      ? html`<p class="dim">${t("Choose a file.")}</p>`
      : html`<${isPicture(path) ? Picture : Editor} key=${`${current}/${path}`} ...${{ connection, say, place: current, path, isChanged, setChanged, onDisk, onDone }} />`}
  </div>`
}

// Operations on the selected file or folder, and on the place itself.
function Operations({ connection, say, place, chosen, isLocked, onDone }) {
  const [asking, setAsking] = useState(null)
  const run = async (name, args, gone, opened) => {
    setAsking(null)
    try {
      const value = await connection.call(name, { place, ...args })
      say({ message: value.text ?? (typeof value === "string" ? value : t("Saved.")), isGood: true })
      onDone(gone, opened)
    } catch (error) {
      say(error)
      onDone(null)
    }
  }
  const folder = chosen === null ? "" : chosen.isFolder ? `${chosen.path}/` : chosen.path.replace(/[^/]*$/, "")
  const forms = {
    file: { label: "New file", first: folder, act: (name) => run("write_file", { path: name, text: "" }, null, name) },
    folder: { label: "New folder", first: folder, act: (name) => run("make_folder", { path: name }, null) },
    move: { label: "Rename or move", first: chosen?.path, act: (name) => run("move_path", { path: chosen.path, to: name }, chosen.path) },
  }
  const button = (kind) =>
    html`<button type="button" aria-expanded=${asking === kind} disabled=${isLocked} onClick=${() => setAsking(asking === kind ? null : kind)}>${t(forms[kind].label)}</button>`
  const undo = (label, redo) =>
    html`<button type="button" disabled=${isLocked} onClick=${() => run("undo_change", { redo }, null)}>${t(label)}</button>`
  return html`<div class="file-operations" role="group" aria-label=${t("Change files")}>
    <p class="row">${button("file")} ${button("folder")} ${undo("Undo", false)} ${undo("Redo", true)}</p>
    ${chosen &&
    html`<p class="row"><b class="path">${visible(chosen.path)}</b> ${button("move")}
      ${!isLocked && html`<${Certain} key=${chosen.path} label=${t("Delete")} name=${chosen.path} onYes=${() => run("delete_path", { path: chosen.path }, chosen.path)} />`}</p>`}
    ${asking && html`<${PathForm} key=${asking} ...${forms[asking]} close=${() => setAsking(null)} />`}
  </div>`
}

function PathForm({ label, first, act, close }) {
  const [name, setName] = useState(first)
  const field = useRef(null)
  useEffect(() => {
    field.current.focus()
    field.current.setSelectionRange(first.length, first.length)
  }, [])
  const submit = (event) => {
    event.preventDefault()
    if (name.trim() && name !== first) act(name.trim())
  }
  const onKey = (event) => event.key === "Escape" && close()
  return html`<form class="row" onSubmit=${submit} onKeyDown=${onKey}>
    <input required class="wide" ref=${field} spellcheck="false" autocomplete="off" aria-label=${`${t(label)}: ${t("Path")}`} value=${name} onInput=${(event) => setName(event.target.value)} />
    <button class="send">${t(label)}</button>
  </form>`
}

// A folder; its entries are loaded when it is opened, and again whenever `look` changes.
function Folder(props) {
  const { connection, say, place, path, open, chosen, look, isLocked, onOpen, onChoose, onSeen } = props
  const [entries, setEntries] = useState(null)
  const [isOpen, setOpen] = useState({})
  useEffect(() => {
    let isGone = false
    const take = (list) => {
      if (isGone) return
      setEntries((before) => (JSON.stringify(before) === JSON.stringify(list) ? before : list))
      if (open !== null && open.replace(/\/?[^/]*$/, "") === path) {
        const entry = list.find((item) => join(path, item.name) === open)
        onSeen(entry ? `${entry.changed_at} ${entry.size}` : "gone")
      }
    }
    // A deleted folder disappears with the next listing of its parent; only the first load reports errors.
    const args = { place, path }
    if (entries === null) connection.until("list_folder", args).then(take, (error) => !isGone && say(error))
    else connection.call("list_folder", args).then(take, () => {})
    return () => (isGone = true)
  }, [look, open])
  if (!entries) return html`<${Wait} />`
  const row = (entry) => {
    const whole = join(path, entry.name)
    const isChosen = chosen?.path === whole ? "true" : null
    if (!entry.is_folder) {
      return html`<li key=${entry.name}>
        <button type="button" disabled=${isLocked} aria-current=${isChosen} title=${`${entry.size.toLocaleString()} B`} onClick=${() => onOpen(whole)}>${visible(entry.name)}</button>
      </li>`
    }
    const toggle = () => {
      setOpen({ ...isOpen, [entry.name]: !isOpen[entry.name] })
      onChoose({ path: whole, isFolder: true })
    }
    return html`<li key=${entry.name}>
      <button type="button" aria-expanded=${Boolean(isOpen[entry.name])} aria-current=${isChosen} onClick=${toggle}>${isOpen[entry.name] ? "▾" : "▸"} ${visible(entry.name)}</button>
      ${isOpen[entry.name] && html`<${Folder} ...${props} path=${whole} />`}
    </li>`
  }
  return html`<ul class="tree">
    ${entries.length === 0 && html`<li class="dim">${t("empty")}</li>`}
    ${entries.map(row)}
  </ul>`
}

function OpenFile({ isLocked, onOpen }) {
  const [name, setName] = useState("")
  const begin = (event) => {
    event.preventDefault()
    onOpen(name.trim())
    setName("")
  }
  return html`<form class="row" onSubmit=${begin}>
    <input required class="wide" aria-label=${t("Path of a file")} placeholder=${t("Path of a file")} value=${name} onInput=${(event) => setName(event.target.value)} />
    <button disabled=${isLocked}>${t("Open")}</button>
  </form>`
}

function Editor({ connection, say, place, path, isChanged, setChanged, onDisk, onDone }) {
  const host = useRef(null)
  const editor = useRef(null)
  const [file, setFile] = useState(null)
  const [problem, setProblem] = useState("")
  const [conflict, setConflict] = useState(null)
  const read = () => connection.call("read_file", { place, path })
  useEffect(() => {
    let isGone = false
    const open = async () => {
      try {
        const [content, { TextEditor }] = await Promise.all([read(), import("./text-editor.mjs")])
        if (isGone) return
        const onSave = () => saving.current()
        editor.current = new TextEditor(host.current, { text: plain(content.text), path, onChange: setChanged, onSave })
        setFile(content)
      } catch (error) {
        if (!isGone) setProblem(error.hint ? `${error.message} ${error.hint}` : error.message)
      }
    }
    open()
    return () => {
      isGone = true
      editor.current?.close()
      setChanged(false)
    }
  }, [])
  // Update together with the screen, not after it, because "Saved." may be visible already.
  useLayoutEffect(() => {
    markUnsaved(host, isChanged)
    return () => markUnsaved(host, false)
  }, [isChanged])
  // Detect changes and deletions by others.
  useEffect(() => {
    if (file === null || onDisk === null) return
    let isGone = false
    const follow = async () => {
      const content = await read().catch(() => null)
      if (isGone || content === null || content.digest === file.digest) return
      if (isChanged) return compare()
      editor.current.replace(plain(content.text))
      setFile(content)
    }
    follow()
    return () => (isGone = true)
  }, [onDisk])
  const compare = async () => {
    try {
      setConflict(await connection.call("compare_file", { place, path, text: editor.current.text }))
    } catch (error) {
      say(error)
    }
  }
  const write = async (digest) => {
    const { text, document } = editor.current
    try {
      setFile(await connection.call("write_file", { place, path, text, digest }))
      editor.current?.markSaved(document)
      setConflict(null)
      say({ message: t("Saved."), isGood: true })
      onDone(null)
    } catch (error) {
      if (error.code === "file-changed") await compare()
      else say(error)
    }
  }
  const save = async (event) => {
    event?.preventDefault()
    if (isChanged) await write(file.digest)
  }
  // The key handler is created once, but must save the current text.
  const saving = useRef(save)
  saving.current = save
  const takeBack = async () => {
    try {
      const content = await read()
      editor.current.replace(plain(content.text))
      setFile(content)
      setConflict(null)
    } catch (error) {
      say(error)
    }
  }
  return html`<form class="editor" onSubmit=${save}>
    <p class="row">
      <b>${visible(path)}</b>
      ${file?.digest === "" && html`<span class="dim">${t("not there yet")}</span>`}
      <button class="send" disabled=${!isChanged}>${t("Save")}</button>
      ${isChanged && html`<button type="button" onClick=${takeBack}>${t("Take back")}</button>`}
    </p>
    ${problem && html`<p class="bad" role="alert">${visible(problem)}</p>`}
    ${conflict &&
    html`<div class="conflict" role="alert">
      <p>${t("This file was changed meanwhile. The difference from the file to your text:")}</p>
      ${conflict.diff ? html`<${Diff} text=${conflict.diff} />` : html`<p class="dim">${t("Both are the same.")}</p>`}
      <p class="actions">
        <button type="button" class="bad" onClick=${() => write(conflict.digest)}>${t("Save mine")}</button>
        <button type="button" onClick=${takeBack}>${t("Use the file on disk")}</button>
        <button type="button" onClick=${() => setConflict(null)}>${t("Go on editing")}</button>
      </p>
    </div>`}
    ${!problem && file === null && html`<${Wait} />`}
    <div class="code-editor" ref=${host} hidden=${file === null}></div>
    ${file && html`<p class="dim">${t("Tab indents. Press Esc, then Tab, to leave the editor.")}</p>`}
  </form>`
}

// A picture, read-only.
function Picture({ connection, place, path }) {
  const [picture, setPicture] = useState(null)
  const [problem, setProblem] = useState("")
  useEffect(() => {
    connection.call("read_picture", { place, path }).then(setPicture, (error) => setProblem(error.message))
  }, [])
  return html`<figure class="picture">
    <figcaption>${visible(path)}</figcaption>
    ${problem && html`<p class="bad" role="alert">${visible(problem)}</p>`}
    ${!problem && !picture && html`<${Wait} />`}
    ${picture && html`<img alt=${visible(path)} src=${`data:${picture.media_type};base64,${picture.data}`} />`}
  </figure>`
}

const join = (folder, name) => (folder ? `${folder}/${name}` : name)

const isPicture = (path) => /\.(png|jpe?g|gif|webp)$/i.test(path)

// The server restores uniform line endings; a text with mixed line endings stays unchanged.
function plain(text) {
  const unix = text.replaceAll("\r\n", "\n")
  const isMixed = unix.includes("\r") || /(^|[^\r])\n/.test(text)
  return isMixed ? text : unix
}
