"""Client of the page, run by Node."""

from tests.house.typescript import FILE

CLIENT = FILE.with_name("protocol.mjs")
