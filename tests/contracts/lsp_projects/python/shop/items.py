"""What is sold."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shop.basket import Basket


class Item:
    """Something with a price."""

    def __init__(self, name: str, cents: int) -> None:
        self.name = name
        self.cents = cents

    def price(self) -> int:
        """The price in cents."""
        return self.cents

    def put_into(self, basket: Basket) -> None:
        basket.add(self)


class Discounted(Item):
    """An item for less."""

    def price(self) -> int:
        return self.cents // 2
