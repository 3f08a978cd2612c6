import { Discounted, type Priced } from "./items.js";

/** What somebody buys. 籃子裡有蘋果 🍎。 */
export class Basket {
  private items: Priced[] = [];

  add(item: Priced): void {
    this.items.push(item);
  }

  total(): number {
    const label = "蘋果 🍎"; const amount = this.items.reduce((sum, item) => sum + item.price(), 0);
    return label ? amount : 0;
  }
}

export function sample(): Basket {
  const basket = new Basket();
  basket.add(new Discounted("apple", 100));
  return basket;
}
