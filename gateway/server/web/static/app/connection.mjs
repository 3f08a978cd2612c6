// The page's connection, and how its browser comes in and goes out.

import { CallError, Connection } from "./protocol.mjs"

// `onState` is told "open", "closed" or "denied".
export const connect = (onState) =>
  new Connection({
    address: location.origin,
    protocols: () => ["kore", key() || "none"],
    onState,
    isDenied: async () => (await isLoggedIn()) === false,
  })

// Whether this browser's cookie counts; null when nobody answers.
export async function isLoggedIn() {
  try {
    const response = await post("/v1/calls/status", {})
    return response.status !== 401 && response.status !== 403
  } catch {
    return null
  }
}

// A code of one use or a token for a cookie. Throws a CallError.
export async function login(secret) {
  const response = await post("/v1/login", secret)
  const answer = await response.json()
  if (!response.ok) throw new CallError(answer.error ?? {})
  localStorage.setItem("key", answer.value.key)
}

// The half of this browser's token that belongs to this page; the other is in its cookie.
const key = () => localStorage.getItem("key") ?? ""

export const logout = () => post("/v1/logout", {})

function post(path, body) {
  return fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Kore-Key": key() },
    body: JSON.stringify(body),
    credentials: "same-origin",
  })
}
