// Upload of attachments, and download of files that the model sends.

import { useEffect, useRef, useState } from "./html.mjs"
import { t } from "./texts.mjs"

const MAX_SIDE_PIXELS = 1600
const MAX_UNCHANGED_BYTES = 1_000_000
const KINDS = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])
const PART_BYTES = 1 << 20
const MAX_FILES = 20
// Number of attempts of an upload in parts, if the server is replaced during it.
const MAX_TRIES = 3

// The files of a draft message; `add` starts the upload at once.
export function useAttachments(connection, say) {
  const [files, setFiles] = useState([])
  const current = useRef(files)
  const update = (change) => setFiles((current.current = change(current.current)))
  const set = (entry, facts) => {
    Object.assign(entry, facts)
    update((list) => [...list])
  }
  const send = async (entry) => {
    try {
      const media = await kept(connection, entry, (share) => set(entry, { share }))
      set(entry, { media, share: 1 })
      return media
    } catch (error) {
      if (entry.isGone) return null
      set(entry, { problem: error.hint ? `${error.message} ${error.hint}` : error.message })
      say(error)
      return null
    }
  }
  const add = (list) => {
    const room = MAX_FILES - current.current.length
    const entries = [...list].map((file) => ({ file, share: 0, media: null, problem: "" }))
    if (entries.length > room) say({ message: `${t("So many files go along with a message at most:")} ${MAX_FILES}` })
    const taken = entries.slice(0, Math.max(room, 0))
    update((now) => [...now, ...taken])
    for (const entry of taken) entry.sent = send(entry)
  }
  const remove = (entry) => {
    entry.isGone = true
    update((list) => list.filter((file) => file !== entry))
  }
  useEffect(() => () => current.current.forEach((entry) => (entry.isGone = true)), [])
  return { files, add, remove, replace: (list) => update(() => list) }
}

// Uploads a file and returns its media for `send_message`. Throws the server's errors.
async function kept(connection, entry, onShare) {
  const { file } = entry
  const small = KINDS.has(file.type) && file.size <= MAX_UNCHANGED_BYTES ? file : await shrunk(file)
  if (small) return connection.until("store_picture", { data: await base64(small) })
  for (let tries = 1; ; tries++) {
    try {
      return await uploaded(connection, entry, onShare)
    } catch (error) {
      if (error.code !== "unknown-upload" || tries === MAX_TRIES) throw error
    }
  }
}

async function uploaded(connection, entry, onShare) {
  const { file } = entry
  const upload = await connection.until("begin_upload", { name: file.name, size_bytes: file.size })
  let media = null
  for (let offset = 0; offset < file.size && !entry.isGone; offset += PART_BYTES) {
    const data = await base64(file.slice(offset, offset + PART_BYTES))
    media = await connection.until("continue_upload", { upload, offset, data })
    onShare(Math.min(1, (offset + PART_BYTES) / file.size))
  }
  return media
}

// Returns null if this browser cannot show the picture, which is then sent as a file.
async function shrunk(file) {
  if (!file.type.startsWith("image/")) return null
  try {
    const bitmap = await createImageBitmap(file)
    const scale = Math.min(1, MAX_SIDE_PIXELS / Math.max(bitmap.width, bitmap.height))
    const canvas = document.createElement("canvas")
    canvas.width = Math.round(bitmap.width * scale)
    canvas.height = Math.round(bitmap.height * scale)
    canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height)
    return await new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.85))
  } catch {
    return null
  }
}

function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1))
    // For example a dropped folder, or a file that was deleted in the meantime.
    reader.onerror = () => reject(new Error(t("This file cannot be read.")))
    reader.readAsDataURL(blob)
  })
}

// Downloads a file that `send_file` sent. The browser saves it; it has no address on this server and
// is never shown as a page.
export async function download(connection, place, onShare) {
  const parts = []
  let offset = 0
  let first = null
  do {
    const part = await connection.until("read_sent_file", { ...place, offset })
    first ??= part
    if (part.version !== first.version) throw new Error(t("The file changed meanwhile; try again."))
    const bytes = Uint8Array.from(atob(part.data), (c) => c.charCodeAt(0))
    if (!bytes.length && offset < part.size) throw new Error(t("The file changed meanwhile; try again."))
    parts.push(new Blob([bytes]))
    offset += bytes.length
    onShare(part.size ? offset / part.size : 1)
  } while (offset < first.size)
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob(parts, { type: "application/octet-stream" }))
  link.download = first.name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

export const bytesInWords = (count) =>
  count < 1024 ? `${count} B` : count < 1024 ** 2 ? `${Math.round(count / 1024)} KB` : `${(count / 1024 ** 2).toFixed(1)} MB`
