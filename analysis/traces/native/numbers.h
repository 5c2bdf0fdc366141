/* Numbers as traces write them, read without loss. A token is a value's text with its quotes. */
#ifndef FAULTLINE_NUMBERS_H
#define FAULTLINE_NUMBERS_H

#include <stdint.h>

#define MAX_NUMBER_TEXT 64
#define HANDLES (INT64_C(1) << 30)

/* Microseconds to whole ns, half to even; 0 where the token is no time. */
int nanoseconds_of(const uint8_t *token, int64_t length, int64_t *ns);
/* The nearest double; 0 where the token is no finite number. A string may hold a number or 0x and hex digits. */
int double_of(const uint8_t *token, int64_t length, double *value);
/* Cut to a whole number; 0 where the token is no number or does not fit. */
int integer_of(const uint8_t *token, int64_t length, int64_t *value);
/* A stream: 1 with its number or -1 for none, 0 where the token is a handle or a name to be numbered. */
int stream_of(const uint8_t *token, int64_t length, int64_t *stream);

#endif
