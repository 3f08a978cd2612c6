#include "items.h"

int item_price(const struct item *item) {
    return item->cents;
}
