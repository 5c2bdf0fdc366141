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

FL_EXPORT int64_t fl_device_rows(int64_t rows, const int32_t *category, int64_t categories, const uint8_t *kind,
                                 const int64_t *start, const int64_t *correlation, int64_t *found, int64_t *range);
FL_EXPORT int64_t fl_launches(int64_t rows, const int32_t *category, int64_t categories, const uint8_t *kind,
                              const int64_t *correlation, int64_t low, int64_t size, int32_t *table, int64_t asked,
                              const int64_t *asked_rows, int64_t *launch);
FL_EXPORT int64_t fl_lane_streams(int64_t entries, const int64_t *rows, const int32_t *lane, const int64_t *stream,
                                  int64_t lanes, uint8_t *seen, int64_t *found);
FL_EXPORT int64_t fl_of_lane(int64_t entries, const int64_t *rows, const int32_t *lane, int64_t lanes,
                             const int64_t *table, int64_t *out);
FL_EXPORT int64_t fl_order_by_key(int64_t entries, const int64_t *key, int64_t keys, int64_t *count, int64_t *order);
FL_EXPORT int64_t fl_lane_order(int64_t entries, const int64_t *rows, const int32_t *lane, int64_t lanes,
                                const int64_t *start, const int64_t *duration, int64_t *count, int64_t *order,
                                int64_t *spare);
FL_EXPORT int64_t fl_stream_gaps(int64_t entries, const int64_t *order, const int64_t *stream, const int64_t *rows,
                                 const int64_t *start, const int64_t *duration, int64_t *place, int64_t *begin);

#endif
