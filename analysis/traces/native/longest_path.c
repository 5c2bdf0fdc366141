#include "kernels.h"

#include <stddef.h>

static int64_t add_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum))
        return b > 0 ? INT64_MAX : INT64_MIN;
    return sum;
}

/* Longest path to each node of a DAG, every node a possible start. `left` is zeroed, one byte a node.
   Returns 0; -1 where an edge names no node; -2 where an edge comes after one that leaves its target. */
int64_t fl_longest_path(int64_t nodes, int64_t edges, const int64_t *source, const int64_t *target,
                        const int64_t *weight, const int64_t *order, int64_t *distance, int64_t *best_edge,
                        uint8_t *left)
{
    for (int64_t node = 0; node < nodes; node++) {
        distance[node] = 0;
        best_edge[node] = -1;
    }
    for (int64_t i = 0; i < edges; i++) {
        int64_t edge = order == NULL ? i : order[i];
        if (edge < 0 || edge >= edges)
            return -1;
        int64_t from = source[edge], to = target[edge];
        if (from < 0 || from >= nodes || to < 0 || to >= nodes)
            return -1;
        left[from] = 1;
        if (left[to])
            return -2;
        int64_t reached = add_saturated(distance[from], weight[edge]);
        if (reached > distance[to] || (reached == distance[to] && best_edge[to] < 0)) {
            distance[to] = reached;
            best_edge[to] = edge;
        }
    }
    return 0;
}
