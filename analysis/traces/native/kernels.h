/* Loops over trace columns that numpy cannot express. All return a count, or a negative number for bad input. */
#ifndef FAULTLINE_KERNELS_H
#define FAULTLINE_KERNELS_H

#include <stdint.h>

#ifdef _WIN32
#define FL_EXPORT __declspec(dllexport)
#else
#define FL_EXPORT __attribute__((visibility("default")))
#endif

FL_EXPORT int64_t fl_nesting(int64_t rows, const int32_t *lane, const int64_t *start, const int64_t *end,
                             int64_t *parent, int64_t *stack);
FL_EXPORT int64_t fl_longest_path(int64_t nodes, int64_t edges, const int64_t *source, const int64_t *target,
                                  const int64_t *weight, const int64_t *order, int64_t *distance,
                                  int64_t *best_edge, uint8_t *left);

#endif
