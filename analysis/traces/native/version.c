#include "kernels.h"

FL_EXPORT int64_t fl_version(void);

/* Of what the functions take and give; analysis/traces/native/library.py names the same number. */
int64_t fl_version(void)
{
    return 3;
}
