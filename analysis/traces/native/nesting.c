#include "kernels.h"

/* Enclosing row of each row, rows sorted by (lane, start, -end). `stack` has room for all rows.
   Returns how many rows end after the row that encloses their start. */
int64_t fl_nesting(int64_t rows, const int32_t *lane, const int64_t *start, const int64_t *end, int64_t *parent,
                   int64_t *stack)
{
    int64_t depth = 0, overlaps = 0;
    for (int64_t row = 0; row < rows; row++) {
        if (row > 0 && lane[row] != lane[row - 1])
            depth = 0;
        while (depth > 0 && end[stack[depth - 1]] <= start[row])
            depth--;
        parent[row] = depth > 0 ? stack[depth - 1] : -1;
        if (depth > 0 && end[row] > end[stack[depth - 1]])
            overlaps++;
        stack[depth++] = row;
    }
    return overlaps;
}
