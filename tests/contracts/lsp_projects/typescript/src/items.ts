/** Something with a price. */
export interface Priced {
  price(): number;
}

/** An item of the shop. */
export class Item implements Priced {
  constructor(
    readonly name: string,
    protected cents: number,
  ) {}

  price(): number {
    return this.cents;
  }
}

export class Discounted extends Item {
  override price(): number {
    return this.cents / 2;
  }
}
