// CodeMirror for one file. This module and its imports are loaded when a file is opened.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "../vendor/codemirror/commands.mjs"
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, StreamLanguage, syntaxHighlighting } from "../vendor/codemirror/language.mjs"
import { tags } from "../vendor/codemirror/lezer-highlight.mjs"
import { highlightSelectionMatches, search, searchKeymap } from "../vendor/codemirror/search.mjs"
import { Compartment, EditorState } from "../vendor/codemirror/state.mjs"
import { EditorView, highlightActiveLine, highlightActiveLineGutter, highlightSpecialChars, keymap, lineNumbers } from "../vendor/codemirror/view.mjs"
import { t } from "./texts.mjs"

// Shown as code points, because they hide text or reverse its direction.
const HIDDEN = /[\u200b-\u200f\u202a-\u202e\u2060-\u2069]/g

export class TextEditor {
  // `onChange` is called with whether the text differs from the saved text.
  constructor(host, { text, path, onChange, onSave }) {
    // CodeMirror uses style sheets that the content security policy allows only in a shadow root.
    const root = host.shadowRoot ?? host.attachShadow({ mode: "open" })
    const language = new Compartment()
    this.onChange = onChange
    this.view = new EditorView({
      root,
      parent: root,
      state: EditorState.create({
        doc: text,
        extensions: [
          keymap.of([{ key: "Mod-s", run: () => (onSave(), true), preventDefault: true }]),
          extensions(text, path),
          language.of([]),
          EditorView.updateListener.of((update) => update.docChanged && this.report()),
        ],
      }),
    })
    this.saved = this.view.state.doc
    // If the language fails to load, the text has no highlighting.
    languageOf(path).then(
      (support) => this.view.dispatch({ effects: language.reconfigure(support) }),
      (error) => console.warn("no language for this file", error),
    )
  }

  // The text with its original line endings.
  get text() {
    return this.view.state.sliceDoc()
  }

  get document() {
    return this.view.state.doc
  }

  // Records that the file now has this content.
  markSaved(document) {
    this.saved = document
    this.report()
  }

  replace(text) {
    const doc = this.view.state.toText(text)
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: doc } })
    this.markSaved(this.view.state.doc)
  }

  report() {
    this.onChange(!this.view.state.doc.eq(this.saved))
  }

  focus() {
    this.view.focus()
  }

  close() {
    this.view.destroy()
  }
}

function extensions(text, path) {
  return [
    // In a text with mixed line endings, carriage returns are treated as characters, to preserve them.
    text.includes("\r") ? EditorState.lineSeparator.of("\n") : [],
    lineNumbers(),
    highlightActiveLineGutter(),
    highlightActiveLine(),
    highlightSpecialChars({ addSpecialChars: HIDDEN }),
    history(),
    indentOnInput(),
    indentUnit.of(indentOf(text)),
    bracketMatching(),
    highlightSelectionMatches(),
    search({ top: true }),
    keymap.of([indentWithTab, ...defaultKeymap, ...historyKeymap, ...searchKeymap]),
    /\.(md|markdown|txt|rst)$/i.test(path) ? EditorView.lineWrapping : [],
    EditorView.contentAttributes.of({
      "aria-label": path,
      "aria-description": t("Tab indents. Press Esc, then Tab, to leave the editor."),
    }),
    EditorState.phrases.of(Object.fromEntries(PHRASES.map((phrase) => [phrase, t(phrase)]))),
    syntaxHighlighting(COLORS),
    THEME,
  ]
}

const indentOf = (text) => (/^\t/m.test(text) ? "\t" : /^ {2}\S/m.test(text) ? "  " : "    ")

const own = (name) => import(`../vendor/codemirror/lang-${name}.mjs`)

const mode = async (file, name) =>
  StreamLanguage.define((await import(`../vendor/codemirror/modes/${file}.mjs`))[name])

const script = async (options) => (await own("javascript")).javascript(options)

// Languages by file extension.
const LANGUAGES = [
  [/\.(py|pyi|pyw)$/, async () => (await own("python")).python()],
  [/\.(js|mjs|cjs)$/, () => script()],
  [/\.jsx$/, () => script({ jsx: true })],
  [/\.(ts|mts|cts)$/, () => script({ typescript: true })],
  [/\.tsx$/, () => script({ jsx: true, typescript: true })],
  [/\.(json|jsonc|webmanifest)$/, async () => (await own("json")).json()],
  [/\.(md|markdown)$/, async () => (await own("markdown")).markdown()],
  [/\.(html|htm|xhtml|vue|svg|xml)$/, async () => (await own("html")).html()],
  [/\.css$/, async () => (await own("css")).css()],
  [/\.rs$/, async () => (await own("rust")).rust()],
  [/\.(c|h|cc|cpp|cxx|hh|hpp)$/, async () => (await own("cpp")).cpp()],
  [/\.go$/, async () => (await own("go")).go()],
  [/\.(yaml|yml)$/, async () => (await own("yaml")).yaml()],
  [/\.sql$/, async () => (await own("sql")).sql()],
  [/\.(sh|bash|zsh|ksh)$|(^|\/)\.(bashrc|profile|zshrc)$/, () => mode("shell", "shell")],
  [/\.toml$/, () => mode("toml", "toml")],
  [/(^|\/)(dockerfile|containerfile)$|\.dockerfile$/, () => mode("dockerfile", "dockerFile")],
  [/\.java$/, () => mode("clike", "java")],
  [/\.kts?$/, () => mode("clike", "kotlin")],
  [/\.cs$/, () => mode("clike", "csharp")],
  [/\.scala$/, () => mode("clike", "scala")],
]

async function languageOf(path) {
  const entry = LANGUAGES.find(([pattern]) => pattern.test(path.toLowerCase()))
  return entry ? entry[1]() : []
}

// CodeMirror's own labels, for translation.
const PHRASES = [
  ...["Find", "Replace", "next", "previous", "all", "match case", "regexp", "by word", "replace"],
  ...["replace all", "close", "Go to line", "go", "current match", "on line"],
  ...["replaced match on line $", "replaced $ matches", "Control character"],
]

const color = (light, dark) => ({ color: `light-dark(${light}, ${dark})` })

const COLORS = HighlightStyle.define([
  { tag: [tags.comment, tags.meta], ...color("#5f6670", "#9aa1a8"), fontStyle: "italic" },
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], ...color("#8b2f8f", "#d7a1e8") },
  { tag: [tags.string, tags.regexp, tags.special(tags.string)], ...color("#1c6b3a", "#98d0a2") },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], ...color("#9a4b00", "#e8b27d") },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName)], ...color("#1f55a5", "#93bdf3") },
  { tag: [tags.typeName, tags.className, tags.tagName, tags.namespace], ...color("#0b6470", "#7fd0dc") },
  { tag: [tags.propertyName, tags.attributeName, tags.labelName], ...color("#27518a", "#a9c6ec") },
  { tag: tags.heading, fontWeight: "bold" },
  { tag: tags.strong, fontWeight: "bold" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: [tags.link, tags.url], ...color("#1f55a5", "#93bdf3"), textDecoration: "underline" },
  { tag: tags.invalid, ...color("#a3261b", "#ff9d90") },
])

// The page's colors, which follow its light or dark theme.
const THEME = EditorView.theme({
  "&": { height: "100%", color: "var(--text)", backgroundColor: "var(--raised)", fontSize: "0.9rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.5" },
  ".cm-content": { caretColor: "var(--text)" },
  ".cm-gutters": { backgroundColor: "var(--panel)", color: "var(--dim)", borderColor: "var(--line)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--text) 6%, transparent)" },
  ".cm-panels": { backgroundColor: "var(--panel)", color: "var(--text)", borderColor: "var(--line)" },
  ".cm-panels-top": { borderBottom: "1px solid var(--line)" },
  ".cm-textfield": { backgroundColor: "var(--raised)", borderColor: "var(--line)", color: "var(--text)", fontSize: "1rem" },
  ".cm-panel.cm-search label": { fontSize: "0.9rem" },
  ".cm-button": { backgroundImage: "none", backgroundColor: "var(--raised)", borderColor: "var(--line)", color: "var(--text)", fontSize: "0.9rem" },
  ".cm-panel.cm-search [name=close]": { color: "var(--text)", fontSize: "1.2rem", padding: "0 8px" },
  ".cm-searchMatch": { backgroundColor: "color-mix(in srgb, #d9a800 35%, transparent)" },
  ".cm-searchMatch-selected": { backgroundColor: "color-mix(in srgb, #d9a800 65%, transparent)" },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--accent) 18%, transparent)" },
  "&.cm-focused .cm-matchingBracket": { backgroundColor: "color-mix(in srgb, var(--accent) 35%, transparent)" },
  ".cm-specialChar": { color: "var(--bad)" },
})
