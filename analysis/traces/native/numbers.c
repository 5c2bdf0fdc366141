#include "numbers.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NO_STREAM UINT32_MAX
#define MAX_TIME_DIGITS 16
#define SAFE_MICROSECONDS INT64_C(9000000000000000) /* so many fit into 64 bits as ns */
#define MAX_EXPONENT 99999

typedef struct {
    uint8_t digits[MAX_NUMBER_TEXT]; /* without leading zeros */
    int count;
    int64_t exponent; /* of ten, of the last digit */
    int negative, whole;
} decimal;

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static int is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

/* -?digits(.digits)?(e[+-]?digits)? and nothing else, at most MAX_NUMBER_TEXT bytes, an exponent of at most 5 digits. */
static int parse_decimal(const uint8_t *text, int64_t length, decimal *number)
{
    int64_t i = 0, fraction = 0;
    if (length < 1 || length > MAX_NUMBER_TEXT)
        return 0;
    number->count = 0;
    number->exponent = 0;
    number->whole = 1;
    number->negative = text[0] == '-';
    i += number->negative;
    int64_t start = i;
    for (; i < length && is_digit(text[i]); i++)
        if (text[i] != '0' || number->count)
            number->digits[number->count++] = (uint8_t)(text[i] - '0');
    if (i == start)
        return 0;
    if (i < length && text[i] == '.') {
        start = ++i;
        for (; i < length && is_digit(text[i]); i++, fraction++)
            if (text[i] != '0' || number->count)
                number->digits[number->count++] = (uint8_t)(text[i] - '0');
        if (i == start)
            return 0;
        number->whole = 0;
    }
    if (i < length && (text[i] == 'e' || text[i] == 'E')) {
        i++;
        int down = i < length && text[i] == '-';
        if (i < length && (text[i] == '-' || text[i] == '+'))
            i++;
        start = i;
        for (; i < length && is_digit(text[i]) && i - start < 5; i++)
            number->exponent = number->exponent * 10 + (text[i] - '0');
        if (i == start)
            return 0;
        number->exponent = down ? -number->exponent : number->exponent;
        number->whole = 0;
    }
    number->exponent -= fraction;
    return i == length;
}

/* The whole part of digits * 10^exponent, half to even; the caller has made sure that it fits. */
static uint64_t rounded(const decimal *number, int64_t exponent)
{
    int64_t kept = number->count + (exponent < 0 ? exponent : 0);
    uint64_t value = 0;
    for (int64_t i = 0; i < kept; i++)
        value = value * 10 + number->digits[i];
    for (int64_t i = 0; i < exponent; i++)
        value *= 10;
    if (kept < 0 || kept >= number->count)
        return value;
    int up = number->digits[kept] > 5;
    if (number->digits[kept] == 5) {
        up = value & 1;
        for (int64_t i = kept + 1; i < number->count; i++)
            up |= number->digits[i] != 0;
    }
    return value + (uint64_t)up;
}

int nanoseconds_of(const uint8_t *token, int64_t length, int64_t *ns)
{
    while (length > 0 && (token[0] == '"' || token[0] == ' '))
        token++, length--;
    while (length > 0 && (token[length - 1] == '"' || token[length - 1] == ' '))
        length--;
    int64_t i = 0, value = 0;
    for (; i < length && i < MAX_TIME_DIGITS && is_digit(token[i]); i++)
        value = value * 10 + (token[i] - '0');
    int fits = i > 0 && value < SAFE_MICROSECONDS;
    if (fits && i == length) {
        *ns = value * 1000;
        return 1;
    }
    if (fits && length - i == 4 && token[i] == '.' && is_digit(token[i + 1]) && is_digit(token[i + 2]) && is_digit(token[i + 3])) {
        *ns = value * 1000 + (token[i + 1] - '0') * 100 + (token[i + 2] - '0') * 10 + (token[i + 3] - '0');
        return 1;
    }
    decimal number;
    if (!parse_decimal(token, length, &number))
        return 0;
    if (number.count == 0) {
        *ns = 0;
        return 1;
    }
    if (number.count + number.exponent > MAX_TIME_DIGITS)
        return 0;
    uint64_t exact = rounded(&number, number.exponent + 3);
    if (exact >= INT64_MAX)
        return 0;
    *ns = number.negative ? -(int64_t)exact : (int64_t)exact;
    return 1;
}

/* The number's text inside a token: quotes off; `hex` where it is 0x and 1 to 16 hex digits, with its value. */
static int number_text(const uint8_t **token, int64_t *length, int *hex, uint64_t *value)
{
    *hex = 0;
    if (*length < 1 || **token != '"')
        return *length >= 1;
    if (*length < 3)
        return 0;
    (*token)++;
    *length -= 2;
    if (*length < 3 || (*token)[0] != '0' || ((*token)[1] | 0x20) != 'x')
        return 1;
    if (*length > 18)
        return 0;
    *value = 0;
    for (int64_t i = 2; i < *length; i++) {
        uint8_t c = (*token)[i], low = (uint8_t)(c | 0x20);
        if (!is_digit(c) && !(low >= 'a' && low <= 'f'))
            return 0;
        *value = *value << 4 | (uint64_t)(is_digit(c) ? c - '0' : low - 'a' + 10);
    }
    *hex = 1;
    return 1;
}

/* By the C library, which rounds to nearest; its decimal point is the locale's. */
static int double_by_library(const uint8_t *text, int64_t length, double *value)
{
    char copy[MAX_NUMBER_TEXT + 1];
    memcpy(copy, text, (size_t)length);
    copy[length] = 0;
    char *point = strchr(copy, '.');
    const struct lconv *here = localeconv();
    if (point && here && here->decimal_point && here->decimal_point[0])
        *point = here->decimal_point[0];
    char *stop;
    *value = strtod(copy, &stop);
    return stop == copy + length && isfinite(*value);
}

int double_of(const uint8_t *token, int64_t length, double *value)
{
    int hex;
    uint64_t bits;
    decimal number;
    if (!number_text(&token, &length, &hex, &bits))
        return 0;
    if (hex) {
        *value = (double)bits;
        return 1;
    }
    if (!parse_decimal(token, length, &number))
        return 0;
    if (number.count > 15 || number.exponent > 22 || number.exponent < -22)
        return double_by_library(token, length, value);
    int64_t whole = 0;
    for (int i = 0; i < number.count; i++)
        whole = whole * 10 + number.digits[i];
    double exact = (double)whole;
    exact = number.exponent < 0 ? exact / TENS[-number.exponent] : exact * TENS[number.exponent];
    *value = number.negative ? -exact : exact;
    return 1;
}

int integer_of(const uint8_t *token, int64_t length, int64_t *value)
{
    int64_t small = 0, i = 0;
    for (; i < length && i < 18 && is_digit(token[i]); i++)
        small = small * 10 + (token[i] - '0');
    if (i > 0 && i == length) {
        *value = small;
        return 1;
    }
    const uint8_t *text = token;
    int64_t text_length = length;
    int hex;
    uint64_t bits;
    decimal number;
    if (!number_text(&text, &text_length, &hex, &bits))
        return 0;
    if (!hex) {
        if (!parse_decimal(text, text_length, &number))
            return 0;
        if (!number.whole) {
            double real;
            if (!double_of(token, length, &real) || !(fabs(real) < 9223372036854775808.0))
                return 0;
            *value = (int64_t)real;
            return 1;
        }
        if (number.count > 19)
            return 0;
        bits = rounded(&number, 0);
    }
    if (bits > INT64_MAX)
        return 0;
    *value = !hex && number.negative ? -(int64_t)bits : (int64_t)bits;
    return 1;
}

int stream_of(const uint8_t *token, int64_t length, int64_t *stream)
{
    static const char NAMED[] = "\"stream ";
    double real;
    int64_t prefix = (int64_t)sizeof NAMED - 1;
    *stream = -1;
    if (length > prefix + 1 && length <= prefix + 10 && memcmp(token, NAMED, (size_t)prefix) == 0) {
        int64_t number = 0, i = prefix;
        for (; i < length - 1 && is_digit(token[i]); i++)
            number = number * 10 + (token[i] - '0');
        if (i == length - 1 && number < HANDLES) {
            *stream = number;
            return 1;
        }
    }
    if (double_of(token, length, &real)) {
        if (real == (double)NO_STREAM || real < 0)
            return 1;
        if (real < (double)HANDLES && real == floor(real)) {
            *stream = (int64_t)real;
            return 1;
        }
        return 0;
    }
    return !(length > 2 && token[0] == '"');
}
