#ifndef ITEMS_H
#define ITEMS_H

/* Something with a price. */
struct item {
    const char *name;
    int cents;
};

/* The price in cents. */
int item_price(const struct item *item);

#endif
