#include "kernels.h"

static int after(int64_t a, int64_t b, const int64_t *start, const int64_t *duration)
{
    if (start[a] != start[b])
        return start[a] > start[b];
    return duration[a] < duration[b];
}

/* Stable merge sort of entries[0..count) by (start, -duration), by `spare`; next to nothing where they are in order. */
static void sort_lane(int64_t *entries, int64_t count, int64_t *spare, const int64_t *start, const int64_t *duration)
{
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t low = 0; low + width < count; low += 2 * width) {
            int64_t middle = low + width, high = middle + width < count ? middle + width : count;
            if (!after(entries[middle - 1], entries[middle], start, duration))
                continue;
            int64_t left = low, right = middle, out = 0;
            while (left < middle && right < high)
                spare[out++] = after(entries[left], entries[right], start, duration) ? entries[right++] : entries[left++];
            while (left < middle)
                spare[out++] = entries[left++];
            for (int64_t i = 0; i < out; i++)
                entries[low + i] = spare[i];
        }
    }
}

/* The rows by lane, start, the longest first, place among `rows`. `count` has lanes + 1 zeros, `spare` room for all
   rows. Returns -1 for a lane out of range. */
int64_t fl_lane_order(int64_t entries, const int64_t *rows, const int32_t *lane, int64_t lanes, const int64_t *start,
                      const int64_t *duration, int64_t *count, int64_t *order, int64_t *spare)
{
    for (int64_t i = 0; i < entries; i++) {
        int64_t own = lane[rows[i]];
        if (own < 0 || own >= lanes)
            return -1;
        count[own + 1]++;
    }
    for (int64_t l = 0; l < lanes; l++)
        count[l + 1] += count[l];
    for (int64_t i = 0; i < entries; i++)
        order[count[lane[rows[i]]]++] = rows[i];
    /* count[l] is now where lane l ends. */
    for (int64_t l = 0, begin = 0; l < lanes; begin = count[l++])
        sort_lane(order + begin, count[l] - begin, spare, start, duration);
    return entries;
}
