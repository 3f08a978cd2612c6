#include "check.h"
#include "lines.h"

#include <string.h>

int main(void)
{
    uint8_t memory[16];
    char text[16];
    struct ring ring;
    ring_init(&ring, memory, sizeof memory);
    ring_write(&ring, "one\ntw", 6);
    CHECK(ring_read_line(&ring, text, sizeof text) == 4 && strcmp(text, "one\n") == 0);
    CHECK(ring_read_line(&ring, text, sizeof text) == 0);
    ring_write(&ring, "o\n", 2);
    CHECK(ring_read_line(&ring, text, sizeof text) == 4 && strcmp(text, "two\n") == 0);
    return 0;
}
