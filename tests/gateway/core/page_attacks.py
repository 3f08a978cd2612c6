"""Texts that attack the page that shows them."""

# Each is inserted at every place where foreign text gets into a page.
ATTACKS = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "<iframe src=https://evil.example>",
    "</pre></details></main><script>alert(1)</script>",
    '" onmouseover="alert(1)',
    "[a](javascript:alert(1))",
    "[a](JaVaScRiPt:alert(1))",
    "[a](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==)",
    "[a](vbscript:x)",
    "![a](https://evil.example/pixel.png)",
    '![a](x "onerror=alert(1)")',
    "[a]: javascript:alert(1)\n\n[a]",
    "<javascript:alert(1)>",
    '```python"><script>alert(1)</script>\nx\n```',
    "```html\n<script>alert(1)</script>\n```",
    "| a |\n|---|\n| <script>alert(1)</script> |",
    "<style>body{background:url(https://evil.example)}</style>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<base href=https://evil.example>",
    "<!--><script>alert(1)</script>-->",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\u202e\u2066<script>\u2069",
    "\x00<scr\x00ipt>alert(1)</scr\x00ipt>",
]
