#include "interned.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64

static uint64_t mixed(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Both factors of every product depend on the seed: a text that holds a known factor would make the product 0, forget
   what came before, and so collide with as many others as a file cares to write. */
static uint32_t hash_of(const uint8_t *text, int64_t length, uint64_t seed)
{
    const uint64_t k1 = UINT64_C(0xa0761d6478bd642f), k2 = mixed(seed ^ k1, UINT64_C(0xe7037ed1a0b428db)) ^ seed;
    uint64_t state = seed ^ k1, a = 0, b = 0;
    int64_t left = length;
    for (; left > 16; text += 16, left -= 16) {
        memcpy(&a, text, 8);
        memcpy(&b, text + 8, 8);
        state = mixed(a ^ k2, b ^ state);
    }
    a = b = 0;
    if (left > 8) {
        memcpy(&a, text, 8);
        memcpy(&b, text + 8, (size_t)(left - 8));
    } else {
        memcpy(&a, text, (size_t)left);
    }
    state = mixed(a ^ k2 ^ (uint64_t)length, b ^ state);
    return (uint32_t)mixed(state ^ seed, k1);
}

static void *grown(void *old, int64_t *room, int64_t need, size_t width)
{
    int64_t more = *room + *room / 2 > need ? *room + *room / 2 : need;
    void *found = realloc(old, (size_t)more * width);
    if (found)
        *room = more;
    return found;
}

static int rehash(interned *table)
{
    int64_t room = table->slots_room ? table->slots_room * 2 : FIRST_SLOTS;
    int32_t *slots = calloc((size_t)room, sizeof *slots);
    if (!slots)
        return 0;
    for (int64_t id = 0; id < table->count; id++) {
        int64_t slot = table->hashes[id] & (room - 1);
        while (slots[slot])
            slot = (slot + 1) & (room - 1);
        slots[slot] = (int32_t)(id + 1);
    }
    free(table->slots);
    table->slots = slots;
    table->slots_room = room;
    return 1;
}

static int make_room(interned *table, int64_t length)
{
    if (!table->bytes || table->used + length > table->room) {
        uint8_t *bytes = grown(table->bytes, &table->room, table->used + length + 1024, 1);
        if (!bytes)
            return 0;
        table->bytes = bytes;
    }
    if (table->count == table->ends_room) {
        int64_t room = table->ends_room ? table->ends_room * 2 : FIRST_SLOTS;
        int64_t *ends = realloc(table->ends, (size_t)room * sizeof *ends);
        if (!ends)
            return 0;
        table->ends = ends;
        uint32_t *hashes = realloc(table->hashes, (size_t)room * sizeof *hashes);
        if (!hashes)
            return 0;
        table->hashes = hashes;
        table->ends_room = room;
    }
    return 1;
}

int64_t intern(interned *table, const uint8_t *text, int64_t length, uint64_t seed, int64_t *budget)
{
    uint32_t hash = hash_of(text, length, seed);
    if (table->count * 2 >= table->slots_room && !rehash(table))
        return INTERNED_NO_MEMORY;
    int64_t slot = hash & (table->slots_room - 1);
    for (; table->slots[slot]; slot = (slot + 1) & (table->slots_room - 1)) {
        int64_t id = table->slots[slot] - 1;
        int64_t start = id ? table->ends[id - 1] : 0;
        if (table->hashes[id] == hash && table->ends[id] - start == length &&
            memcmp(table->bytes + start, text, (size_t)length) == 0)
            return id;
    }
    if (table->count >= table->limit || length > *budget)
        return INTERNED_FULL;
    if (!make_room(table, length))
        return INTERNED_NO_MEMORY;
    memcpy(table->bytes + table->used, text, (size_t)length);
    table->used += length;
    *budget -= length;
    table->ends[table->count] = table->used;
    table->hashes[table->count] = hash;
    table->slots[slot] = (int32_t)(++table->count);
    return table->count - 1;
}

void interned_release(interned *table)
{
    free(table->bytes);
    free(table->ends);
    free(table->hashes);
    free(table->slots);
    memset(table, 0, sizeof *table);
}
