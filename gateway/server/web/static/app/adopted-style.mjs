// In the place of a style element: the page's policy allows no style that a script writes as text,
// but style sheets that it adopts. `make vendor` puts this element's name into xterm.js.

class AdoptedStyle extends HTMLElement {
  sheet = new CSSStyleSheet()

  set textContent(rules) {
    this.sheet.replaceSync(rules)
  }

  connectedCallback() {
    document.adoptedStyleSheets.push(this.sheet)
  }

  disconnectedCallback() {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((one) => one !== this.sheet)
  }
}

customElements.define("adopted-style", AdoptedStyle)
