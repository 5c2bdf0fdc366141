#include "json_walk.h"
#include "numbers.h"
#include "scanner.h"

#include <stdlib.h>

#define FIRST_ROWS 4096
#define IS(part, words) ((part).length == (int64_t)sizeof(words) - 1 && memcmp((part).text, words, sizeof(words) - 1) == 0)

static int grow(void **column, int64_t *room, int64_t need, size_t width)
{
    int64_t more = *room + *room / 2;
    if (need <= *room)
        return 1;
    more = more > FIRST_ROWS ? more : FIRST_ROWS;
    more = more > need ? more : need;
    void *found = realloc(*column, (size_t)more * width);
    if (!found)
        return 0;
    *column = found;
    *room = more;
    return 1;
}

static int add_sparse(sparse *column, int64_t row, double value, int32_t id, int has_value, int has_id)
{
    int64_t need = column->count + 1;
    if (!grow((void **)&column->rows, &column->rows_room, need, sizeof *column->rows) ||
        (has_value && !grow((void **)&column->values, &column->values_room, need, sizeof *column->values)) ||
        (has_id && !grow((void **)&column->ids, &column->ids_room, need, sizeof *column->ids)))
        return 0;
    column->rows[column->count] = (int32_t)row;
    if (has_value)
        column->values[column->count] = value;
    if (has_id)
        column->ids[column->count] = id;
    column->count++;
    return 1;
}

static int grow_rows(scan *state)
{
    int64_t room = state->room;
    for (int i = 0; i < WIDE_COLUMNS; i++, room = state->room)
        if (!grow((void **)&state->wide[i], &room, state->rows + 1, sizeof(int64_t)))
            return 0;
    for (int i = 0; i < SMALL_COLUMNS; i++, room = state->room)
        if (!grow((void **)&state->small[i], &room, state->rows + 1, sizeof(int32_t)))
            return 0;
    room = state->room + state->room / 2;
    state->room = room > FIRST_ROWS ? room : FIRST_ROWS;
    return 1;
}

/* A link's column is filled to its last value only; what lies behind is -1 once it is taken. */
int fill_link(scan *state, int link, int64_t rows)
{
    if (!grow((void **)&state->links[link], &state->links_room[link], rows, sizeof(int64_t)))
        return 0;
    for (int64_t row = state->links_filled[link]; row < rows; row++)
        state->links[link][row] = -1;
    state->links_filled[link] = rows;
    return 1;
}

static int set_link(scan *state, int link, int64_t value)
{
    if (!fill_link(state, link, state->rows + 1))
        return 0;
    state->links[link][state->rows] = value;
    return 1;
}

static int64_t lane_of(scan *state, token pid, token tid)
{
    int64_t length = 4 + pid.length + tid.length;
    uint32_t first = (uint32_t)pid.length;
    if (!grow((void **)&state->scratch, &state->scratch_room, length, 1))
        return INTERNED_NO_MEMORY;
    memcpy(state->scratch, &first, 4);
    if (pid.length)
        memcpy(state->scratch + 4, pid.text, (size_t)pid.length);
    if (tid.length)
        memcpy(state->scratch + 4 + pid.length, tid.text, (size_t)tid.length);
    interned *lanes = &state->lanes;
    if (state->last_lane >= 0) {
        int64_t start = state->last_lane ? lanes->ends[state->last_lane - 1] : 0;
        if (lanes->ends[state->last_lane] - start == length &&
            memcmp(lanes->bytes + start, state->scratch, (size_t)length) == 0)
            return state->last_lane;
    }
    int64_t id = intern(lanes, state->scratch, length, state->seed, &state->budget);
    if (id >= 0)
        state->last_lane = id;
    return id;
}

static int64_t interned_of(scan *state, interned *table, token text)
{
    static const uint8_t nothing = 0;
    return intern(table, text.text ? text.text : &nothing, text.length, state->seed, &state->budget);
}

static int64_t category_of(scan *state, token text)
{
    interned *table = &state->categories;
    if (state->last_category >= 0 && text.length) {
        int64_t start = state->last_category ? table->ends[state->last_category - 1] : 0;
        if (table->ends[state->last_category] - start == text.length &&
            memcmp(table->bytes + start, text.text, (size_t)text.length) == 0)
            return state->last_category;
    }
    int64_t id = interned_of(state, table, text);
    if (id >= 0)
        state->last_category = id;
    return id;
}

static int keep_stream(scan *state, token value)
{
    int64_t stream;
    if (!stream_of(value.text, value.length, &stream)) {
        int64_t handle = interned_of(state, &state->handles, value);
        if (handle == INTERNED_NO_MEMORY)
            return 0;
        if (handle == INTERNED_FULL)
            state->lost[LOST_ARGUMENT]++;
        stream = handle < 0 ? -1 : HANDLES + handle;
    }
    return stream == -1 || set_link(state, 0, stream);
}

static int keep_text(scan *state, int32_t index, token value)
{
    int plain = value.text[0] == '"' || value.text[0] == '{' || value.text[0] == '[' || value.text[0] == '-' ||
                (value.text[0] >= '0' && value.text[0] <= '9') || IS(value, "true") || IS(value, "false");
    if (!plain || IS(value, "\"\"") || (value.text[0] == '-' && (value.text[1] == 'i' || value.text[1] == 'I')))
        return 1;
    int64_t id = interned_of(state, &state->text_tables[index], value);
    if (id == INTERNED_NO_MEMORY)
        return 0;
    if (id == INTERNED_FULL || state->arguments_kept >= state->max_arguments) {
        state->lost[LOST_ARGUMENT]++;
        return 1;
    }
    state->arguments_kept++;
    return add_sparse(&state->texts[index], state->rows, 0, (int32_t)id, 0, 1);
}

static int keep_number(scan *state, int32_t index, token value)
{
    double number;
    if (!double_of(value.text, value.length, &number))
        return 1;
    if (state->arguments_kept >= state->max_arguments) {
        state->lost[LOST_ARGUMENT]++;
        return 1;
    }
    state->arguments_kept++;
    return add_sparse(&state->numbers[index], state->rows, number, 0, 1, 0);
}

static int keep_arguments(scan *state)
{
    for (int32_t i = 0; i < state->touched_count; i++) {
        const key *known = &state->keys[state->of_argument[state->touched[i]]];
        token value = state->arguments[state->touched[i]];
        int64_t number;
        int kept = 1;
        if (known->kind == KEY_STREAM)
            kept = keep_stream(state, value);
        else if (known->kind == KEY_NUMBER)
            kept = keep_number(state, known->index, value);
        else if (known->kind == KEY_TEXT)
            kept = keep_text(state, known->index, value);
        else if (known->kind == KEY_LINK && integer_of(value.text, value.length, &number) && number != -1)
            kept = set_link(state, known->index, number);
        if (!kept)
            return 0;
    }
    return 1;
}

/* Every numeric argument of an event, by any name; NaN where the value is no number, so that the last of one name wins. */
static int64_t keep_counters(scan *state, token args)
{
    int why, closed;
    place p = args.text + 1, end = args.text + args.length;
    for (closed = *(p = skip_space(p, end)) == '}'; !closed;) {
        place name = p + 1;
        place stop = walk_string(name, end, &why);
        place value = skip_space(skip_space(stop + 1, end) + 1, end);
        place behind = walk_value(value, end, 2, &why);
        double number;
        if (!double_of(value, behind - value, &number))
            number = __builtin_nan("");
        token text = {name - 1, stop + 1 - (name - 1)};
        int64_t id = interned_of(state, &state->counter_names, text);
        if (id == INTERNED_NO_MEMORY)
            return -1;
        if (id == INTERNED_FULL || state->arguments_kept >= state->max_arguments) {
            state->lost[LOST_ARGUMENT]++;
        } else {
            state->arguments_kept++;
            if (!add_sparse(&state->counters, state->rows, number, (int32_t)id, 1, 1))
                return -1;
        }
        p = skip_space(behind, end);
        closed = *p == '}';
        p = closed ? p : skip_space(p + 1, end);
    }
    return 0;
}

static int64_t keep_interval(scan *state, const event *found)
{
    int64_t ts, dur;
    if (!nanoseconds_of(found->ts.text, found->ts.length, &ts))
        return state->lost[LOST_TIME]++, 0;
    if (!nanoseconds_of(found->dur.text, found->dur.length, &dur))
        return state->lost[LOST_DURATION]++, 0;
    if (dur < 0)
        return state->lost[LOST_NEGATIVE]++, 0;
    if (state->rows == state->room && !grow_rows(state))
        return -1;
    int64_t name = interned_of(state, &state->names, found->name);
    int64_t category = name < 0 ? name : category_of(state, found->category);
    int64_t lane = category < 0 ? category : lane_of(state, found->pid, found->tid);
    if (lane < 0)
        return lane == INTERNED_FULL ? (state->lost[LOST_NAME]++, 0) : -1;
    if (!keep_arguments(state))
        return -1;
    if (IS(found->category, "\"cuda_profiler_range\"") && found->args.length && found->args.text[0] == '{' &&
        keep_counters(state, found->args) < 0)
        return -1;
    int64_t row = state->rows++;
    state->wide[COLUMN_TS][row] = ts;
    state->wide[COLUMN_DUR][row] = dur;
    state->wide[COLUMN_EVENT][row] = state->position;
    state->wide[COLUMN_OFFSET][row] = found->offset;
    state->small[COLUMN_NAME][row] = (int32_t)name;
    state->small[COLUMN_CATEGORY][row] = (int32_t)category;
    state->small[COLUMN_LANE][row] = (int32_t)lane;
    return 0;
}

static int64_t keep_memory(scan *state, const event *found)
{
    static const int64_t unknown[MEMORY_COLUMNS] = {0, 0, 0, -1, -1, -1, -1};
    int64_t ts, number;
    if (!nanoseconds_of(found->ts.text, found->ts.length, &ts))
        return state->lost[LOST_TIME]++, 0;
    int64_t need = (state->memory_rows + 1) * MEMORY_COLUMNS;
    if (!grow((void **)&state->memory, &state->memory_room, need, sizeof *state->memory))
        return -1;
    int64_t *row = state->memory + state->memory_rows++ * MEMORY_COLUMNS;
    memcpy(row, unknown, sizeof unknown);
    row[0] = ts;
    for (int32_t i = 0; i < state->touched_count; i++) {
        const key *known = &state->keys[state->of_argument[state->touched[i]]];
        token value = state->arguments[state->touched[i]];
        if (known->kind == KEY_MEMORY && integer_of(value.text, value.length, &number))
            row[1 + known->index] = number;
    }
    return 0;
}

/* What names a thread or a process, for Python to read: the kind, the pid, the tid and the arguments, once each. */
static int64_t keep_label(scan *state, const event *found, uint8_t kind)
{
    const token parts[] = {found->pid, found->tid, found->args};
    int64_t length = 1;
    for (int i = 0; i < 3; i++)
        length += 4 + parts[i].length;
    if (!grow((void **)&state->scratch, &state->scratch_room, length, 1))
        return -1;
    uint8_t *p = state->scratch;
    *p++ = kind;
    for (int i = 0; i < 3; i++) {
        uint32_t part = (uint32_t)parts[i].length;
        memcpy(p, &part, 4);
        if (part)
            memcpy(p + 4, parts[i].text, part);
        p += 4 + part;
    }
    int64_t id = intern(&state->labels, state->scratch, length, state->seed, &state->label_budget);
    if (id == INTERNED_FULL)
        state->lost[LOST_LABEL]++;
    return id == INTERNED_NO_MEMORY ? -1 : 0;
}

int64_t keep_event(scan *state, const event *found)
{
    token phase = found->phase;
    if (IS(phase, "\"X\""))
        return keep_interval(state, found);
    uint8_t letter = phase.length > 2 && phase.text[0] == '"' ? phase.text[1] : 0;
    if (letter > ' ' && letter < 127 && letter != '\\')
        state->phases[letter]++;
    else
        state->lost[NO_PHASE]++;
    if (IS(phase, "\"i\"") && IS(found->name, "\"[memory]\""))
        return keep_memory(state, found);
    if (IS(phase, "\"M\"") && IS(found->name, "\"thread_name\""))
        return keep_label(state, found, 't');
    if (IS(phase, "\"M\"") && IS(found->name, "\"process_labels\""))
        return keep_label(state, found, 'p');
    if (IS(phase, "\"M\"") && IS(found->name, "\"process_name\""))
        return keep_label(state, found, 'n');
    return 0;
}
