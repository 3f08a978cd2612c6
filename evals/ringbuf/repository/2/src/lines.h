#ifndef LINES_H
#define LINES_H

#include "ring.h"

/* Read up to and including the next '\n' as text that ends with 0; returns its length, or 0 when
 * there is no whole line yet. A line that does not fit is cut off at size - 1. */
size_t ring_read_line(struct ring *ring, char *text, size_t size);

#endif
