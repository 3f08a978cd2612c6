from agent.i18n import use_locale
from agent.settings import ToolSettings
from agent.tools.registry import default_tools
from gateway.turns.tool_listing import BEGINNINGS, beginning


def test_what_every_tool_does_is_said_in_the_language_of_the_person() -> None:
    tools = default_tools(ToolSettings())
    assert [beginning(tool.description) for tool in tools] == list(BEGINNINGS)
    with use_locale("zh-Hans"):
        assert beginning("Read a text file, PDF or picture. Lines come as number.") == (
            "读取文本文件、PDF 或图片"
        )
        assert beginning("Feeds the cat. Once.") == "Feeds the cat"
