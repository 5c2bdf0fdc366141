/* Steps over JSON text in memory, never past `end`.

   Each step takes the place of a value's first byte and gives the place after its last one, or NULL with a reason in
   `why`: WALK_MORE where the text ends before the value does, WALK_ODD where it is not JSON as we take it. Taken are, beyond
   the grammar, control characters in strings and bare N/A, NaN, nan, inf, -inf, Infinity and -Infinity. */
#ifndef FAULTLINE_JSON_WALK_H
#define FAULTLINE_JSON_WALK_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#define WALK_SIXTEEN /* sixteen bytes at a time */
#endif

#define WALK_MORE 0
#define WALK_ODD 2
#define WALK_MAX_DEPTH 128

typedef const uint8_t *place;

static inline place walk_fail(int *why, int reason)
{
    *why = reason;
    return NULL;
}

static inline place skip_space(place p, place end)
{
    if (p < end && *p > ' ')
        return p;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

static inline uint64_t has_byte(uint64_t word, uint64_t repeated)
{
    uint64_t zero = word ^ repeated;
    return (zero - UINT64_C(0x0101010101010101)) & ~zero & UINT64_C(0x8080808080808080);
}

/* The place of the next quote or backslash; the text is read sixteen or eight bytes at a time. */
static inline place quote_or_backslash(place p, place end)
{
#ifdef WALK_SIXTEEN
    while (end - p >= 16) {
        __m128i text = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(text, _mm_set1_epi8('"')), _mm_cmpeq_epi8(text, _mm_set1_epi8('\\')));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        if (mask)
            return p + __builtin_ctz(mask);
        p += 16;
    }
#endif
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    while (end - p >= 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        uint64_t found = has_byte(word, UINT64_C(0x2222222222222222)) | has_byte(word, UINT64_C(0x5c5c5c5c5c5c5c5c));
        if (found)
            return p + (__builtin_ctzll(found) >> 3);
        p += 8;
    }
#endif
    while (p < end && *p != '"' && *p != '\\')
        p++;
    return p;
}

place walk_escapes(place p, place end, int *why);

/* `p` stands behind the opening quote; the result is the place of the closing one. */
static inline place walk_string(place p, place end, int *why)
{
    p = quote_or_backslash(p, end);
    return p < end && *p == '"' ? p : walk_escapes(p, end, why);
}

static inline place walk_digits(place p, place end)
{
    while (p < end && *p >= '0' && *p <= '9')
        p++;
    return p;
}

place walk_number(place p, place end, int *why);
place walk_literal(place p, place end, int *why);
place walk_nested(place p, place end, int depth, int *why);

/* Any value; `depth` counts the lists and objects it lies in. */
static inline place walk_value(place p, place end, int depth, int *why)
{
    if (p == end)
        return walk_fail(why, WALK_MORE);
    if (*p == '"') {
        p = walk_string(p + 1, end, why);
        return p ? p + 1 : NULL;
    }
    if (*p >= '0' && *p <= '9') {
        place q = walk_digits(p, end);
        if (q < end && *q != '.' && (*q | 0x20) != 'e' && (*p != '0' || q - p == 1))
            return q;
        return walk_number(p, end, why);
    }
    if (*p == '{' || *p == '[')
        return walk_nested(p, end, depth, why);
    return *p == '-' ? walk_number(p, end, why) : walk_literal(p, end, why);
}

#endif
