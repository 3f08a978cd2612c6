// Package shop has what somebody buys.
package shop

// Priced is something with a price.
type Priced interface {
	// Price is in cents.
	Price() int
}

// Item is an item of the shop.
type Item struct {
	Name  string
	Cents int
}

// Price is in cents.
func (item Item) Price() int {
	return item.Cents
}

// Discounted is an item at half its price.
type Discounted struct {
	Item
}

// Price is half of the usual.
func (item Discounted) Price() int {
	return item.Cents / 2
}

// NewDiscounted makes one.
func NewDiscounted(name string, cents int) Discounted {
	return Discounted{Item{name, cents}}
}
