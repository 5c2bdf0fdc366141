#include "scanner.h"

#include "json_walk.h"

#include <stdlib.h>

static uint32_t key_hash(const uint8_t *name, int64_t length)
{
    return ((uint32_t)length * 31 + name[0] * 7 + name[length - 1] * 13 + name[length / 2] * 3) & 255;
}

scan *fl_scan_new(int64_t max_rows, int64_t max_arguments, int64_t budget, int64_t label_budget, const int64_t *limits,
                  uint64_t seed)
{
    scan *state = calloc(1, sizeof *state);
    if (!state)
        return NULL;
    state->max_rows = max_rows;
    state->max_arguments = max_arguments;
    state->budget = budget;
    state->label_budget = label_budget;
    state->seed = seed;
    state->last_category = state->last_lane = -1;
    state->names.limit = limits[TABLE_NAMES];
    state->categories.limit = limits[TABLE_CATEGORIES];
    state->lanes.limit = limits[TABLE_LANES];
    state->handles.limit = limits[TABLE_HANDLES];
    state->counter_names.limit = limits[TABLE_COUNTERS];
    state->labels.limit = limits[TABLE_LABELS];
    for (int i = 0; i < MAX_KEYS; i++)
        state->text_tables[i].limit = limits[TABLE_TEXTS];
    return state;
}

/* An argument to keep. Several spellings may share an `argument`, whose `index` is its place among its kind. */
int64_t fl_scan_key(scan *state, const uint8_t *name, int64_t length, int64_t kind, int64_t index, int64_t argument)
{
    key *added = &state->keys[state->key_count];
    int64_t most = kind == KEY_LINK ? LINKS : kind == KEY_MEMORY ? MEMORY_COLUMNS - 1 : MAX_KEYS;
    if (state->key_count >= MAX_KEYS || length < 1 || length > (int64_t)sizeof added->name || index < 0 ||
        index >= most || argument < 0 || argument >= MAX_KEYS)
        return -1;
    memcpy(added->name, name, (size_t)length);
    added->length = (int32_t)length;
    added->kind = (int32_t)kind;
    added->index = (int32_t)index;
    added->argument = (int32_t)argument;
    uint32_t slot = key_hash(name, length);
    while (state->key_slots[slot])
        slot = (slot + 1) & 255;
    state->of_argument[argument] = state->key_count;
    state->key_slots[slot] = (uint8_t)++state->key_count;
    return 0;
}

static const key *known_key(const scan *state, place name, int64_t length)
{
    if (length < 1)
        return NULL;
    for (uint32_t slot = key_hash(name, length); state->key_slots[slot]; slot = (slot + 1) & 255) {
        const key *candidate = &state->keys[state->key_slots[slot] - 1];
        if (candidate->length == length && memcmp(candidate->name, name, (size_t)length) == 0)
            return candidate;
    }
    return NULL;
}

static void forget_arguments(scan *state)
{
    for (int32_t i = 0; i < state->touched_count; i++)
        state->arguments[state->touched[i]].text = NULL;
    state->touched_count = 0;
}

static void note_argument(scan *state, const key *known, place value, int64_t length)
{
    token *argument = &state->arguments[known->argument];
    if (!argument->text)
        state->touched[state->touched_count++] = known->argument;
    argument->text = value;
    argument->length = length;
}

/* The name of a member and the colon after it: the place of the value. */
static place walk_key(place p, place end, token *name, int *why)
{
    if (p == end)
        return walk_fail(why, WALK_MORE);
    if (*p != '"')
        return walk_fail(why, WALK_ODD);
    name->text = ++p;
    p = walk_string(p, end, why);
    if (!p)
        return NULL;
    name->length = p - name->text;
    p = skip_space(p + 1, end);
    if (p == end)
        return walk_fail(why, WALK_MORE);
    if (*p != ':')
        return walk_fail(why, WALK_ODD);
    return skip_space(p + 1, end);
}

/* Behind a member: the place of the next one, or of the closing brace with `*closed` set. */
static place walk_separator(place p, place end, int *closed, int *why)
{
    p = skip_space(p, end);
    if (p == end)
        return walk_fail(why, WALK_MORE);
    *closed = *p == '}';
    if (*closed)
        return p;
    if (*p != ',')
        return walk_fail(why, WALK_ODD);
    return skip_space(p + 1, end);
}

static place walk_arguments(scan *state, place p, place end, int *why)
{
    int closed;
    forget_arguments(state);
    p = skip_space(p + 1, end);
    if (p == end)
        return walk_fail(why, WALK_MORE);
    closed = *p == '}';
    while (!closed) {
        token name;
        p = walk_key(p, end, &name, why);
        if (!p)
            return NULL;
        const key *known = known_key(state, name.text, name.length);
        place value = p;
        p = walk_value(p, end, 2, why);
        if (!p)
            return NULL;
        if (known)
            note_argument(state, known, value, p - value);
        p = walk_separator(p, end, &closed, why);
        if (!p)
            return NULL;
    }
    return p + 1;
}

static token *member(event *found, const token *name)
{
    const uint8_t *n = name->text;
    switch (name->length) {
    case 2:
        if (n[0] == 'p' && n[1] == 'h')
            return &found->phase;
        return n[0] == 't' && n[1] == 's' ? &found->ts : NULL;
    case 3:
        if (n[0] == 'c' && n[1] == 'a' && n[2] == 't')
            return &found->category;
        if (n[0] == 'd' && n[1] == 'u' && n[2] == 'r')
            return &found->dur;
        if (n[1] == 'i' && n[2] == 'd')
            return n[0] == 'p' ? &found->pid : n[0] == 't' ? &found->tid : NULL;
        return NULL;
    case 4:
        if (memcmp(n, "name", 4) == 0)
            return &found->name;
        return memcmp(n, "args", 4) == 0 ? &found->args : NULL;
    default:
        return NULL;
    }
}

static place walk_event(scan *state, place p, place end, event *found, int *why)
{
    int closed;
    memset(found, 0, sizeof *found);
    forget_arguments(state);
    p = skip_space(p + 1, end);
    if (p == end)
        return walk_fail(why, WALK_MORE);
    closed = *p == '}';
    while (!closed) {
        token name;
        p = walk_key(p, end, &name, why);
        if (!p)
            return NULL;
        token *kept = member(found, &name);
        place value = p;
        if (kept == &found->args && p < end && *p == '{') {
            p = walk_arguments(state, p, end, why);
        } else {
            if (kept == &found->args)
                forget_arguments(state);
            p = walk_value(p, end, 1, why);
        }
        if (!p)
            return NULL;
        if (kept) {
            kept->text = value;
            kept->length = p - value;
        }
        p = walk_separator(p, end, &closed, why);
        if (!p)
            return NULL;
    }
    return p + 1;
}

/* An element of the list that is no object: a string, a list, a number, true, false or null. */
static place walk_other(place p, place end, int *why)
{
    if (*p == '-' || *p == 'n') {
        if (end - p < 2)
            return walk_fail(why, WALK_MORE);
        if (*p == '-' ? p[1] < '0' || p[1] > '9' : p[1] != 'u')
            return walk_fail(why, WALK_ODD);
    } else if (*p == 'N' || *p == 'I' || *p == 'i') {
        return walk_fail(why, WALK_ODD);
    }
    return walk_value(p, end, 0, why);
}

/* As many whole events of a list as the text holds. `text` begins between two events; `offset` is its place in the
   file; `*consumed` says how far it was read: to the event that is cut or odd, or behind the list's closing bracket. */
int64_t fl_scan_feed(scan *state, const uint8_t *text, int64_t size, int64_t offset, int64_t *consumed)
{
    place p = text, end = text + size;
    event found;
    for (;;) {
        int why = SCAN_MORE;
        while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t' || *p == ','))
            p++;
        *consumed = p - text;
        if (p == end)
            return SCAN_MORE;
        if (*p == ']') {
            *consumed += 1;
            return SCAN_LIST_END;
        }
        if (state->rows + state->memory_rows >= state->max_rows)
            return SCAN_FULL;
        place next = *p == '{' ? walk_event(state, p, end, &found, &why) : walk_other(p, end, &why);
        if (!next)
            return why;
        found.offset = offset + (p - text);
        if (*p != '{')
            state->lost[NO_PHASE]++;
        else if (keep_event(state, &found) < 0)
            return SCAN_NO_MEMORY;
        state->position++;
        p = next;
    }
}
