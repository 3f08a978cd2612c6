// Notifications of the browser, and a mark in the title, for a person who looks elsewhere.

import { t } from "./texts.mjs"

const SENTENCES = { question: "Kore asks something", ended: "Kore has finished" }
export const MARKS = { question: "? ", ended: "• " }

export const canNotify = () => typeof Notification !== "undefined" && Notification.permission !== "denied"

export const isOn = () => canNotify() && Notification.permission === "granted" && localStorage.getItem("notify") === "on"

// The browser asks the person for the permission, so that this is called by a click only.
export async function switchOn(on) {
  if (on && (await Notification.requestPermission()) !== "granted") return false
  localStorage.setItem("notify", on ? "on" : "off")
  return isOn()
}

// Each session has one notification, the newest.
export function notify(reason, session, name, open) {
  if (!isOn()) return
  const notification = new Notification(t(SENTENCES[reason]), { body: name, tag: session })
  notification.onclick = () => {
    window.focus()
    open(session)
    notification.close()
  }
}
