/* Distinct byte strings, numbered from 0 in the order they first came. */
#ifndef FAULTLINE_INTERNED_H
#define FAULTLINE_INTERNED_H

#include <stdint.h>

#define INTERNED_FULL -1
#define INTERNED_NO_MEMORY -2

typedef struct {
    uint8_t *bytes;
    int64_t used, room;
    int64_t *ends; /* of each string in `bytes` */
    uint32_t *hashes;
    int64_t count, ends_room;
    int32_t *slots; /* an id + 1, or 0 */
    int64_t slots_room;
    int64_t limit; /* of strings */
} interned;

/* The string's number, new or old. INTERNED_FULL where it is new and the table's `limit` or the bytes left of
   `*budget` (which all tables share) do not allow it. `seed` keeps a file from choosing collisions. */
int64_t intern(interned *table, const uint8_t *text, int64_t length, uint64_t seed, int64_t *budget);
void interned_release(interned *table);

#endif
