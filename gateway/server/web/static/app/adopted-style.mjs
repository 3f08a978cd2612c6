// Replacement for a style element: the content security policy forbids styles that a script writes as
// text, but allows adopted style sheets. `make vendor` puts this element's name into xterm.js.

class AdoptedStyle extends HTMLElement {
  sheet = new CSSStyleSheet()

  set textContent(rules) {
    this.sheet.replaceSync(rules)
  }

  connectedCallback() {
    document.adoptedStyleSheets.push(this.sheet)
  }

  disconnectedCallback() {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== this.sheet)
  }
}

customElements.define("adopted-style", AdoptedStyle)
