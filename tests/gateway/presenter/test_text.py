import pytest

from gateway.presenter.text import home_relative


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/home/ann", "~"),
        ("/home/ann/code", "~/code"),
        ("/home/anna/code", "/home/anna/code"),
        ("/srv/home/ann", "/srv/home/ann"),
    ],
)
def test_home_folder_is_shortened(path: str, shown: str) -> None:
    assert home_relative(path, "/home/ann") == shown


def test_root_as_home_folder_shortens_nothing() -> None:
    assert home_relative("/srv/code", "/") == "/srv/code"
