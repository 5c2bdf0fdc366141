#include "kernels.h"

/* One pass over all rows. `kind` of a category: 1 the accelerator's work, 2 the host's calls, 0 anything else.
   `found` gets the rows of the work in file order; range[0] whether they are in order of start, range[1] and range[2]
   the lowest and the highest correlation above 0 of the calls. Returns how many rows of work there are. */
int64_t fl_device_rows(int64_t rows, const int32_t *category, int64_t categories, const uint8_t *kind,
                       const int64_t *start, const int64_t *correlation, int64_t *found, int64_t *range)
{
    int64_t count = 0, before = INT64_MIN, sorted = 1, low = INT64_MAX, high = 0;
    for (int64_t row = 0; row < rows; row++) {
        int32_t own = category[row];
        if (own < 0 || own >= categories || !kind[own])
            continue;
        if (kind[own] == 1) {
            if (start[row] < before)
                sorted = 0;
            before = start[row];
            found[count++] = row;
        } else if (correlation[row] > 0) {
            if (correlation[row] < low)
                low = correlation[row];
            if (correlation[row] > high)
                high = correlation[row];
        }
    }
    range[0] = sorted;
    range[1] = low;
    range[2] = high;
    return count;
}

/* table[correlation - low] = row of the last call with it; then the entry of each asked row, -1 where there is none.
   `table` need not be cleared: an entry counts only if it is a call with that very correlation. */
int64_t fl_launches(int64_t rows, const int32_t *category, int64_t categories, const uint8_t *kind,
                    const int64_t *correlation, int64_t low, int64_t size, int32_t *table, int64_t asked,
                    const int64_t *asked_rows, int64_t *launch)
{
    int64_t linked = 0;
    for (int64_t row = 0; row < rows; row++) {
        int32_t own = category[row];
        if (own < 0 || own >= categories || kind[own] != 2 || correlation[row] < low)
            continue;
        uint64_t place = (uint64_t)correlation[row] - (uint64_t)low;
        if (place < (uint64_t)size)
            table[place] = (int32_t)row;
    }
    for (int64_t i = 0; i < asked; i++) {
        int64_t row = asked_rows[i];
        launch[i] = -1;
        if (row < 0 || row >= rows || correlation[row] < low)
            continue;
        uint64_t place = (uint64_t)correlation[row] - (uint64_t)low;
        if (place >= (uint64_t)size)
            continue;
        int64_t call = table[place];
        if (call < 0 || call >= rows || correlation[call] != correlation[row])
            continue;
        int32_t own = category[call];
        if (own < 0 || own >= categories || kind[own] != 2)
            continue;
        launch[i] = call;
        linked++;
    }
    return linked;
}

/* The stream of each lane, where every row of a lane has one: `seen` and `found` have a place per lane. Returns 0
   where a lane has two streams, else 1. */
int64_t fl_lane_streams(int64_t entries, const int64_t *rows, const int32_t *lane, const int64_t *stream,
                        int64_t lanes, uint8_t *seen, int64_t *found)
{
    for (int64_t i = 0; i < entries; i++) {
        int32_t own = lane[rows[i]];
        if (own < 0 || own >= lanes)
            return 0;
        if (seen[own] && found[own] != stream[rows[i]])
            return 0;
        seen[own] = 1;
        found[own] = stream[rows[i]];
    }
    return 1;
}

/* out[i] = table[lane[rows[i]]] */
int64_t fl_of_lane(int64_t entries, const int64_t *rows, const int32_t *lane, int64_t lanes, const int64_t *table,
                   int64_t *out)
{
    for (int64_t i = 0; i < entries; i++) {
        int32_t own = lane[rows[i]];
        if (own < 0 || own >= lanes)
            return -1;
        out[i] = table[own];
    }
    return entries;
}

/* Stable order of entries by a small key below `keys`; `count` has keys + 1 zeros. Returns -1 for a key out of range. */
int64_t fl_order_by_key(int64_t entries, const int64_t *key, int64_t keys, int64_t *count, int64_t *order)
{
    for (int64_t i = 0; i < entries; i++) {
        if (key[i] < 0 || key[i] >= keys)
            return -1;
        count[key[i] + 1]++;
    }
    for (int64_t k = 0; k < keys; k++)
        count[k + 1] += count[k];
    for (int64_t i = 0; i < entries; i++)
        order[count[key[i]]++] = i;
    return entries;
}

/* Gaps of each stream: entries in order of (stream, start). `place` is the index of the entry that ends the gap,
   `begin` the latest end before it. Returns how many gaps there are. */
int64_t fl_stream_gaps(int64_t entries, const int64_t *order, const int64_t *stream, const int64_t *rows,
                       const int64_t *start, const int64_t *duration, int64_t *place, int64_t *begin)
{
    int64_t gaps = 0, reach = 0, before = -1;
    for (int64_t i = 0; i < entries; i++) {
        int64_t entry = order[i], row = rows[entry];
        int64_t end = start[row] + duration[row];
        if (stream[entry] != before) {
            before = stream[entry];
            reach = end;
            continue;
        }
        if (start[row] > reach) {
            place[gaps] = entry;
            begin[gaps++] = reach;
        }
        if (end > reach)
            reach = end;
    }
    return gaps;
}
