import io

import pytest
from pypdf import PdfReader, PdfWriter

from agent.errors import ToolError
from agent.tools.web.pdf import MAX_PAGES, pdf_text
from tests.fakes.pdf import pdf_of


def encrypted_pdf(password: str) -> bytes:
    writer = PdfWriter(PdfReader(io.BytesIO(pdf_of(["inside"]))))
    writer.encrypt(password, "owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def test_pages_have_their_numbers() -> None:
    text = await pdf_text(pdf_of(["Grüße", "", "the end"]))
    assert text.split("\n\n")[:3] == [
        "[page 1 of 3]\nGrüße", "[page 2 of 3]\n(no text)", "[page 3 of 3]\nthe end",
    ]  # fmt: skip


async def test_omitted_pages_are_announced() -> None:
    text = await pdf_text(pdf_of([f"p{n}" for n in range(MAX_PAGES + 3)]))
    assert f"[page {MAX_PAGES} of {MAX_PAGES + 3}]" in text
    assert text.rstrip().endswith(f"… (pages {MAX_PAGES + 1} to {MAX_PAGES + 3} are left out)")


async def test_only_a_required_password_prevents_reading() -> None:
    assert "inside" in await pdf_text(encrypted_pdf(""))
    with pytest.raises(ToolError, match="password-protected"):
        await pdf_text(encrypted_pdf("secret"))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"%PDF-1.4\n",
        b"no pdf at all",
        pdf_of(["x"])[:200],
        pdf_of(["x"]).replace(b"Pages", b"Sages"),
    ],
)
async def test_broken_file_is_explained(data: bytes) -> None:
    with pytest.raises(ToolError, match="The PDF could not be read"):
        await pdf_text(data)


async def test_file_that_takes_all_memory_is_abandoned() -> None:
    bomb = PdfWriter(PdfReader(io.BytesIO(pdf_of(["x"]))))
    page = bomb.pages[0]
    contents = page.get_contents()
    assert contents is not None
    contents.set_data(b"BT " + b"(x) Tj " * 12_000_000 + b"ET")
    page.replace_contents(contents)
    page.compress_content_streams()
    out = io.BytesIO()
    bomb.write(out)
    with pytest.raises(ToolError, match="The PDF could not be read"):
        await pdf_text(out.getvalue())
