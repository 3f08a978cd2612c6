"""What somebody buys. 籃子裡有蘋果 🍎。"""

from shop.items import Discounted, Item


class Basket:
    def __init__(self) -> None:
        self.items: list[Item] = []

    def add(self, item: Item) -> None:
        self.items.append(item)

    def total(self) -> int:
        label = "蘋果 🍎"; amount = sum(item.price() for item in self.items)
        return amount if label else 0


def sample() -> Basket:
    basket = Basket()
    basket.add(Discounted("apple", 100))
    return basket
