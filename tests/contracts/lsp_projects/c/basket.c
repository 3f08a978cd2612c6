#include "items.h"

static int total(const struct item *items, int count) {
    int sum = 0;
    for (int n = 0; n < count; n++) {
        const char *label = "蘋果 🍎"; sum += label ? item_price(&items[n]) : 0;
    }
    return sum;
}

int main(void) {
    struct item apples[] = {{"apple", 100}, {"pear", 50}};
    return total(apples, 2) == 150 ? 0 : 1;
}
