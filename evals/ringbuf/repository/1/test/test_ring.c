#include "check.h"
#include "ring.h"

#include <string.h>

int main(void)
{
    uint8_t memory[8];
    char text[8];
    struct ring ring;
    ring_init(&ring, memory, sizeof memory);
    CHECK(ring_write(&ring, "abcde", 5) == 5);
    CHECK(ring_read(&ring, text, 3) == 3 && memcmp(text, "abc", 3) == 0);
    CHECK(ring_write(&ring, "fghijklm", 8) == 6);
    CHECK(ring_free(&ring) == 0);
    CHECK(ring_read(&ring, text, 8) == 8 && memcmp(text, "defghijk", 8) == 0);
    CHECK(ring_read(&ring, text, 1) == 0);
    return 0;
}
