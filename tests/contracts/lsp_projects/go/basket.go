package main

import "example.com/shop/shop"

// Basket is what somebody buys. 籃子裡有蘋果 🍎。
type Basket struct {
	items []shop.Priced
}

func (basket *Basket) add(item shop.Priced) {
	basket.items = append(basket.items, item)
}

func (basket *Basket) total() int {
	sum := 0
	for _, item := range basket.items {
		sum += len("蘋果 🍎"[:0]) + item.Price()
	}
	return sum
}

func sample() *Basket {
	basket := &Basket{}
	basket.add(shop.NewDiscounted("apple", 100))
	return basket
}

func main() {
	println(sample().total())
}
