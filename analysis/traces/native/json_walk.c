#include "json_walk.h"

static const char *const LITERALS[] = {"true", "false", "null", "NaN", "N/A", "nan", "inf", "-inf", "Infinity", "-Infinity"};

/* The rest of a string from a backslash in it, or from the end of the text. */
place walk_escapes(place p, place end, int *why)
{
    for (; p < end; p = quote_or_backslash(p, end)) {
        if (*p == '"')
            return p;
        if (end - p < 2)
            return walk_fail(why, WALK_MORE);
        if (p[1] == 'u') {
            for (int i = 2; i < 6; i++) {
                if (end - p <= i)
                    return walk_fail(why, WALK_MORE);
                uint8_t c = (uint8_t)(p[i] | 0x20);
                if (!((p[i] >= '0' && p[i] <= '9') || (c >= 'a' && c <= 'f')))
                    return walk_fail(why, WALK_ODD);
            }
            p += 6;
        } else if (p[1] != 0 && strchr("\"\\/bfnrt", p[1])) {
            p += 2;
        } else {
            return walk_fail(why, WALK_ODD);
        }
    }
    return walk_fail(why, WALK_MORE);
}

/* A number that stands at the very end of the text may go on after it: more text is asked for. */
place walk_number(place p, place end, int *why)
{
    place start = p;
    if (p < end && *p == '-')
        p++;
    if (p == end)
        return walk_fail(why, WALK_MORE);
    if (*p == 'i' || *p == 'I')
        return walk_literal(start, end, why);
    place digits = p;
    p = walk_digits(p, end);
    if (p == digits || (*digits == '0' && p - digits > 1))
        return walk_fail(why, WALK_ODD);
    if (p < end && *p == '.') {
        digits = ++p;
        p = walk_digits(p, end);
        if (p == digits && p < end)
            return walk_fail(why, WALK_ODD);
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        digits = p;
        p = walk_digits(p, end);
        if (p == digits && p < end)
            return walk_fail(why, WALK_ODD);
    }
    return p < end ? p : walk_fail(why, WALK_MORE);
}

place walk_literal(place p, place end, int *why)
{
    size_t there = (size_t)(end - p);
    *why = WALK_ODD;
    for (size_t i = 0; i < sizeof LITERALS / sizeof *LITERALS; i++) {
        size_t length = strlen(LITERALS[i]);
        if (there >= length ? memcmp(p, LITERALS[i], length) == 0 : 0)
            return p + length;
        if (there < length && memcmp(p, LITERALS[i], there) == 0)
            *why = WALK_MORE;
    }
    return NULL;
}

/* A list or an object with all that is in it; no recursion. */
place walk_nested(place p, place end, int depth, int *why)
{
    uint8_t closes[WALK_MAX_DEPTH];
    int open = 0;

value:
    p = skip_space(p, end);
    if (p == end)
        return walk_fail(why, WALK_MORE);
    if (*p == '{' || *p == '[') {
        if (depth + open >= WALK_MAX_DEPTH)
            return walk_fail(why, WALK_ODD);
        closes[open++] = *p == '{' ? '}' : ']';
        p = skip_space(p + 1, end);
        if (p == end)
            return walk_fail(why, WALK_MORE);
        if (*p == closes[open - 1]) {
            p++;
            open--;
            goto after;
        }
        if (closes[open - 1] == ']')
            goto value;
        goto key;
    }
    p = walk_value(p, end, depth + open, why);
    if (!p)
        return NULL;

after:
    if (open == 0)
        return p;
    p = skip_space(p, end);
    if (p == end)
        return walk_fail(why, WALK_MORE);
    if (*p == closes[open - 1]) {
        p++;
        open--;
        goto after;
    }
    if (*p != ',')
        return walk_fail(why, WALK_ODD);
    p++;
    if (closes[open - 1] == ']')
        goto value;

key:
    p = skip_space(p, end);
    if (p == end)
        return walk_fail(why, WALK_MORE);
    if (*p != '"')
        return walk_fail(why, WALK_ODD);
    p = walk_string(p + 1, end, why);
    if (!p)
        return NULL;
    p = skip_space(p + 1, end);
    if (p == end)
        return walk_fail(why, WALK_MORE);
    if (*p != ':')
        return walk_fail(why, WALK_ODD);
    p++;
    goto value;
}
