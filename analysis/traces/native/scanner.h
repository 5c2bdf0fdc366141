/* Trace events in JSON text to columns. Driven from Python: analysis/traces/native/lane.py. */
#ifndef FAULTLINE_SCANNER_H
#define FAULTLINE_SCANNER_H

#include "interned.h"
#include "kernels.h"

#define MAX_KEYS 96

/* What fl_scan_feed found, beside WALK_MORE and WALK_ODD. */
#define SCAN_MORE 0
#define SCAN_LIST_END 1
#define SCAN_ODD 2
#define SCAN_FULL 3
#define SCAN_NO_MEMORY -1

/* What an argument is kept as. */
enum { KEY_STREAM, KEY_LINK, KEY_NUMBER, KEY_TEXT, KEY_MEMORY };
#define LINKS 5 /* the stream is the first */
#define MEMORY_COLUMNS 7

enum { TABLE_NAMES, TABLE_CATEGORIES, TABLE_LANES, TABLE_HANDLES, TABLE_COUNTERS, TABLE_LABELS, TABLE_TEXTS };

enum { COLUMN_TS, COLUMN_DUR, COLUMN_EVENT, COLUMN_OFFSET, WIDE_COLUMNS };
enum { COLUMN_NAME, COLUMN_CATEGORY, COLUMN_LANE, SMALL_COLUMNS };

/* Columns that fl_scan_take gives away. */
enum {
    TAKE_WIDE,
    TAKE_SMALL,
    TAKE_LINK,
    TAKE_NUMBER_ROWS,
    TAKE_NUMBER_VALUES,
    TAKE_TEXT_ROWS,
    TAKE_TEXT_IDS,
    TAKE_COUNTER_ROWS,
    TAKE_COUNTER_VALUES,
    TAKE_COUNTER_IDS,
    TAKE_MEMORY
};

enum {
    LOST_TIME,
    LOST_DURATION,
    LOST_NEGATIVE,
    LOST_NAME,
    LOST_ARGUMENT,
    LOST_LABEL,
    NO_PHASE,
    LOSSES
};

typedef struct {
    int32_t *rows;
    double *values;
    int32_t *ids;
    int64_t count, rows_room, values_room, ids_room;
} sparse;

typedef struct {
    const uint8_t *text;
    int64_t length;
} token;

typedef struct {
    uint8_t name[48];
    int32_t length, kind, index, argument;
} key;

typedef struct {
    /* limits */
    int64_t max_rows, max_arguments, budget, label_budget;
    uint64_t seed;
    /* arguments that are kept */
    key keys[MAX_KEYS];
    int32_t key_count, of_argument[MAX_KEYS]; /* a key of each argument */
    uint8_t key_slots[256];
    /* the event at hand */
    token arguments[MAX_KEYS];
    int32_t touched[MAX_KEYS];
    int32_t touched_count;
    /* columns */
    int64_t *wide[WIDE_COLUMNS];
    int32_t *small[SMALL_COLUMNS];
    int64_t *links[LINKS];
    int64_t rows, room, links_room[LINKS], links_filled[LINKS];
    sparse numbers[MAX_KEYS], texts[MAX_KEYS], counters;
    int64_t arguments_kept;
    interned names, categories, lanes, handles, counter_names, labels, text_tables[MAX_KEYS];
    int64_t *memory;
    int64_t memory_rows, memory_room;
    /* the last event's category and lane: most events share them */
    int64_t last_category, last_lane;
    uint8_t *scratch;
    int64_t scratch_room;
    int64_t position; /* of the next event, over all events */
    int64_t phases[128];
    int64_t lost[LOSSES];
} scan;

FL_EXPORT scan *fl_scan_new(int64_t max_rows, int64_t max_arguments, int64_t budget, int64_t label_budget,
                            const int64_t *limits, uint64_t seed);
FL_EXPORT int64_t fl_scan_key(scan *state, const uint8_t *name, int64_t length, int64_t kind, int64_t index,
                              int64_t argument);
FL_EXPORT int64_t fl_scan_feed(scan *state, const uint8_t *text, int64_t size, int64_t offset, int64_t *consumed);
FL_EXPORT void *fl_scan_take(scan *state, int64_t what, int64_t index, int64_t *count);
FL_EXPORT int64_t fl_scan_table(const scan *state, int64_t table, int64_t index, const uint8_t **bytes,
                                const int64_t **ends);
FL_EXPORT void fl_scan_counts(const scan *state, int64_t *phases, int64_t *lost);
FL_EXPORT void fl_scan_free(scan *state);
FL_EXPORT void fl_free(void *column);

/* One event whose text was walked. */
typedef struct {
    token phase, category, name, pid, tid, ts, dur, args;
    int64_t offset;
} event;

/* Below 0: no memory; else 0. */
int64_t keep_event(scan *state, const event *found);
/* Fills a link's column with -1 up to so many rows; 0 where there is no memory. */
int fill_link(scan *state, int link, int64_t rows);

#endif
