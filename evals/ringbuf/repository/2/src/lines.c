#include "lines.h"

size_t ring_read_line(struct ring *ring, char *text, size_t size)
{
    size_t tail = (ring->head + ring->size - ring->used) % ring->size;
    for (size_t i = 0; i < ring->used; i++) {
        if (ring->memory[(tail + i) % ring->size] != '\n')
            continue;
        size_t length = i + 1 < size ? i + 1 : size - 1;
        ring_read(ring, text, length);
        text[length] = 0;
        return length;
    }
    return 0;
}
