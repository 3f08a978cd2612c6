#include "ring.h"

#include <string.h>

void ring_init(struct ring *ring, uint8_t *memory, size_t size)
{
    ring->memory = memory;
    ring->size = size;
    ring->head = 0;
    ring->used = 0;
}

size_t ring_used(const struct ring *ring)
{
    return ring->used;
}

size_t ring_free(const struct ring *ring)
{
    return ring->size - ring->used;
}

size_t ring_write(struct ring *ring, const void *bytes, size_t count)
{
    const uint8_t *from = bytes;
    if (count > ring_free(ring))
        count = ring_free(ring);
    size_t first = ring->size - ring->head;
    if (first > count)
        first = count;
    memcpy(ring->memory + ring->head, from, first);
    memcpy(ring->memory, from + first, count - first);
    ring->head += count;
    if (ring->head >= ring->size)
        ring->head -= ring->size;
    ring->used += count;
    return count;
}

size_t ring_read(struct ring *ring, void *bytes, size_t count)
{
    uint8_t *to = bytes;
    if (count > ring->used)
        count = ring->used;
    size_t tail = (ring->head + ring->size - ring->used) % ring->size;
    for (size_t i = 0; i < count; i++)
        to[i] = ring->memory[(tail + i) % ring->size];
    ring->used -= count;
    return count;
}
