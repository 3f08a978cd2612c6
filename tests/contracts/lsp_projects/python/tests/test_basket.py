from shop.basket import sample


def test_total() -> None:
    assert sample().total() == 50
