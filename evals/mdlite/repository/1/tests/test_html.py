import unittest

from mdlite import to_html


class HtmlTest(unittest.TestCase):
    def test_heading_and_paragraph(self):
        self.assertEqual(to_html("# One\n\ntwo\nthree\n"), "<h1>One</h1>\n<p>two three</p>\n")

    def test_list(self):
        self.assertEqual(to_html("- a\n- b\n"), "<ul><li>a</li><li>b</li></ul>\n")

    def test_marks(self):
        self.assertEqual(
            to_html("**a** *b* `c` [d](https://e.org)"),
            '<p><strong>a</strong> <em>b</em> <code>c</code> <a href="https://e.org">d</a></p>\n',
        )

    def test_fence(self):
        self.assertEqual(
            to_html("```py\na < b\n```\n"),
            '<pre><code class="language-py">a &lt; b</code></pre>\n',
        )
