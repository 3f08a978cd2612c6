#ifndef RING_H
#define RING_H

#include <stddef.h>
#include <stdint.h>

struct ring {
    uint8_t *memory;
    size_t size;
    size_t head; /* where the next byte is written */
    size_t used;
};

void ring_init(struct ring *ring, uint8_t *memory, size_t size);
size_t ring_used(const struct ring *ring);
size_t ring_free(const struct ring *ring);

/* Both return how many bytes they took: fewer than asked for when the ring is full or empty. */
size_t ring_write(struct ring *ring, const void *bytes, size_t count);
size_t ring_read(struct ring *ring, void *bytes, size_t count);

#endif
