/* Which places of the library were reached, for tests/fuzz/native_scanner.py. */
#include <stdint.h>

#define PLACES 65536
__attribute__((visibility("default"))) uint8_t fl_reached[PLACES];

__attribute__((no_sanitize_coverage)) void __sanitizer_cov_trace_pc(void)
{
    uintptr_t at = (uintptr_t)__builtin_return_address(0) - (uintptr_t)&__sanitizer_cov_trace_pc;
    fl_reached[at % PLACES] = 1;
}
