/* What a scan found, handed over. */
#include "scanner.h"

#include <stdlib.h>
#include <string.h>

static void *given(void **column, int64_t length, int64_t *count)
{
    void *found = *column;
    *column = NULL;
    *count = found ? length : 0;
    return found;
}

/* A column that the caller frees with fl_free, and its length; NULL and 0 where nothing was found. */
void *fl_scan_take(scan *state, int64_t what, int64_t index, int64_t *count)
{
    sparse *counters = &state->counters;
    *count = 0;
    if (index < 0 || index >= MAX_KEYS)
        return NULL;
    switch (what) {
    case TAKE_WIDE:
        return index < WIDE_COLUMNS ? given((void **)&state->wide[index], state->rows, count) : NULL;
    case TAKE_SMALL:
        return index < SMALL_COLUMNS ? given((void **)&state->small[index], state->rows, count) : NULL;
    case TAKE_LINK:
        if (index >= LINKS || !state->links[index] || !fill_link(state, (int)index, state->rows))
            return NULL;
        return given((void **)&state->links[index], state->rows, count);
    case TAKE_NUMBER_ROWS:
        return given((void **)&state->numbers[index].rows, state->numbers[index].count, count);
    case TAKE_NUMBER_VALUES:
        return given((void **)&state->numbers[index].values, state->numbers[index].count, count);
    case TAKE_TEXT_ROWS:
        return given((void **)&state->texts[index].rows, state->texts[index].count, count);
    case TAKE_TEXT_IDS:
        return given((void **)&state->texts[index].ids, state->texts[index].count, count);
    case TAKE_COUNTER_ROWS:
        return given((void **)&counters->rows, counters->count, count);
    case TAKE_COUNTER_VALUES:
        return given((void **)&counters->values, counters->count, count);
    case TAKE_COUNTER_IDS:
        return given((void **)&counters->ids, counters->count, count);
    case TAKE_MEMORY:
        return given((void **)&state->memory, state->memory_rows * MEMORY_COLUMNS, count);
    default:
        return NULL;
    }
}

/* A table's strings in one piece and where each ends; they stay the scan's. Returns how many there are. */
int64_t fl_scan_table(const scan *state, int64_t table, int64_t index, const uint8_t **bytes, const int64_t **ends)
{
    const interned *const tables[] = {&state->names,    &state->categories,    &state->lanes,
                                      &state->handles, &state->counter_names, &state->labels};
    if (table < 0 || table > TABLE_TEXTS || index < 0 || index >= MAX_KEYS)
        return 0;
    const interned *found = table == TABLE_TEXTS ? &state->text_tables[index] : tables[table];
    *bytes = found->bytes;
    *ends = found->ends;
    return found->count;
}

void fl_scan_counts(const scan *state, int64_t *phases, int64_t *lost)
{
    memcpy(phases, state->phases, sizeof state->phases);
    memcpy(lost, state->lost, sizeof state->lost);
}

void fl_scan_free(scan *state)
{
    if (!state)
        return;
    for (int i = 0; i < WIDE_COLUMNS; i++)
        free(state->wide[i]);
    for (int i = 0; i < SMALL_COLUMNS; i++)
        free(state->small[i]);
    for (int i = 0; i < LINKS; i++)
        free(state->links[i]);
    sparse *columns[] = {state->numbers, state->texts, &state->counters};
    for (int kind = 0; kind < 3; kind++)
        for (int i = 0; i < (kind < 2 ? MAX_KEYS : 1); i++) {
            free(columns[kind][i].rows);
            free(columns[kind][i].values);
            free(columns[kind][i].ids);
        }
    interned *tables[] = {&state->names,   &state->categories,    &state->lanes,
                          &state->handles, &state->counter_names, &state->labels};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        interned_release(tables[i]);
    for (int i = 0; i < MAX_KEYS; i++)
        interned_release(&state->text_tables[i]);
    free(state->memory);
    free(state->scratch);
    free(state);
}

void fl_free(void *column)
{
    free(column);
}
