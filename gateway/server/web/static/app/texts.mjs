// The page's words: English is the key, and what a language lacks stays English.

const WORDS = {
  "Address or token": ["地址或令牌", "位址或權杖"],
  "Allow for this session": ["本对话内允许", "本對話內允許"],
  "Allow once": ["允许一次", "允許一次"],
  "Always": ["始终允许", "一律允許"],
  "Answer": ["回答", "回答"],
  "Ask before risky steps": ["有风险时先询问", "有風險時先詢問"],
  "Branch": ["分支", "分支"],
  "Close": ["关闭", "關閉"],
  "Connecting …": ["正在连接……", "正在連線……"],
  "Copied": ["已复制", "已複製"],
  "Copy": ["复制", "複製"],
  "Deny": ["拒绝", "拒絕"],
  "Edit files without asking": ["不询问直接编辑文件", "不詢問直接編輯檔案"],
  "Enter sends, Shift+Enter makes a new line": ["Enter 发送，Shift+Enter 换行", "Enter 傳送，Shift+Enter 換行"],
  "Kore is thinking": ["Kore 正在思考", "Kore 正在思考"],
  "Log in": ["登录", "登入"],
  "Log out": ["登出", "登出"],
  "Message": ["消息", "訊息"],
  "Mode": ["模式", "模式"],
  "New name": ["新名称", "新名稱"],
  "New session": ["新对话", "新對話"],
  "No connection; trying again …": ["没有连接；正在重试……", "沒有連線；正在重試……"],
  "No sessions": ["没有对话", "沒有對話"],
  "Nothing is asked": ["什么都不询问", "什麼都不詢問"],
  "Plan only, change nothing": ["只做计划，不做更改", "只做計畫，不做更改"],
  "Question": ["问题", "問題"],
  "Rename": ["重命名", "重新命名"],
  "Run `kore web` for a link that lets this browser in, or enter a token (`kore token add NAME --scope admin`).": [
    "运行 `kore web` 可获得让此浏览器登录的链接，或输入令牌（`kore token add NAME --scope admin`）。",
    "執行 `kore web` 可獲得讓此瀏覽器登入的連結，或輸入權杖（`kore token add NAME --scope admin`）。",
  ],
  "Search": ["搜索", "搜尋"],
  "Send": ["发送", "傳送"],
  "Sessions": ["对话", "對話"],
  "Show earlier messages": ["显示更早的消息", "顯示更早的訊息"],
  "Skip to the conversation": ["跳到对话", "跳到對話"],
  "Stop": ["停止", "停止"],
  "Theme": ["主题", "佈景主題"],
  "This link or token does not count, or no longer.": ["此链接或令牌无效或已失效。", "此連結或權杖無效或已失效。"],
  "To the end": ["到末尾", "到末尾"],
  "Token": ["令牌", "權杖"],
  "What would you like to do?": ["想做点什么？", "想做點什麼？"],
  "Why not? (told to the model)": ["为什么不？（会告诉模型）", "為什麼不？（會告訴模型）"],
  "You": ["你", "你"],
  "closed": ["已关闭", "已關閉"],
  "failed": ["失败", "失敗"],
  "paused": ["已暂停", "已暫停"],
  "picture": ["图片", "圖片"],
  "running": ["运行中", "執行中"],
  "thoughts": ["思考过程", "思考過程"],
  "tokens": ["token", "token"],
}

const COLUMN = columnOf(navigator.language || "en")

export const LANGUAGE = COLUMN === 0 ? "zh-Hans" : COLUMN === 1 ? "zh-Hant" : "en"

export const t = (text) => (COLUMN === null ? text : (WORDS[text]?.[COLUMN] ?? text))

function columnOf(language) {
  const tag = language.toLowerCase()
  if (!tag.startsWith("zh")) return null
  return /hant|tw|hk|mo/.test(tag) ? 1 : 0
}
