from agent.i18n import use_locale
from gateway.turns.tool_listing import beginning


def test_beginning_of_a_description_is_translated() -> None:
    with use_locale("zh-Hans"):
        assert beginning("Read a text file, PDF, notebook or picture. Lines come as number.") == (
            "读取文本文件、PDF、Jupyter 笔记本或图片"
        )
        assert beginning("Feeds the cat. Once.") == "Feeds the cat"
