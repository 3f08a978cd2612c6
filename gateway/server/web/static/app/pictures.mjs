// Pictures on their way to the model: made small enough, and kept by the server.

const LONGEST_SIDE = 1600
const SMALL_BYTES = 1_000_000
const KINDS = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"])

export const isPicture = (file) => file.type.startsWith("image/")

// What `send_message` takes. Throws what the server refuses.
export async function kept(connection, file) {
  const small = KINDS.has(file.type) && file.size <= SMALL_BYTES ? file : await shrunk(file)
  return connection.call("store_picture", { data: await base64(small) })
}

async function shrunk(file) {
  const bitmap = await createImageBitmap(file)
  const scale = Math.min(1, LONGEST_SIDE / Math.max(bitmap.width, bitmap.height))
  const canvas = document.createElement("canvas")
  canvas.width = Math.round(bitmap.width * scale)
  canvas.height = Math.round(bitmap.height * scale)
  canvas.getContext("2d").drawImage(bitmap, 0, 0, canvas.width, canvas.height)
  return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.85))
}

function base64(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1))
    reader.onerror = () => reject(reader.error)
    reader.readAsDataURL(blob)
  })
}
