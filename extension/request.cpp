#include "request.hpp"

#include "settings.hpp"

namespace shedlock {

namespace {

// now + at_most and now + at_least must stay within the range of timestamp. Half of that range for each is far more
// than any job needs (140,000 years), and keeps every sum in rules.cpp from overflowing.
constexpr double longest_span = 4.5e18;

constexpr bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

lock_name make_name(Datum datum)
{
    return to_lock_name(DatumGetTextPP(datum));
}

lock_names make_names(std::span<const Datum> elements)
{
    auto *const names = static_cast<lock_name *>(palloc(sizeof(lock_name) * elements.size()));
    std::transform(elements.begin(), elements.end(), names, make_name);
    return {names, elements.size()};
}

bool is_before(const lock_name &a, const lock_name &b)
{
    return a.bytes < b.bytes;
}

bool is_same(const lock_name &a, const lock_name &b)
{
    return a.bytes == b.bytes;
}

// Without NULLs and repetitions.
lock_names distinct_names(ArrayType *array)
{
    Datum *elements;
    bool *nulls;
    int count;
    deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &elements, &nulls, &count);
    auto *const kept = static_cast<Datum *>(palloc(sizeof(Datum) * count));
    int kept_count = 0;
    for (int i = 0; i < count; i++)
        if (!nulls[i])
            kept[kept_count++] = elements[i];
    const auto names = make_names({kept, static_cast<size_t>(kept_count)});
    std::sort(names.begin(), names.end(), is_before);
    return names.first(std::unique(names.begin(), names.end(), is_same) - names.begin());
}

// Months and days are added in UTC, beginning now, so a day is always 24 hours.
duration to_duration(const Interval *interval, const char *argument)
{
    if (!pg::is_finite(interval))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be finite", argument)));

    const double estimate = static_cast<double>(interval->time) +
                            static_cast<double>(USECS_PER_DAY) * (interval->day + 31.0 * interval->month);
    if (estimate > longest_span || estimate < -longest_span)
        ereport(ERROR,
                (errcode(ERRCODE_DATETIME_FIELD_OVERFLOW), errmsg("%s is beyond the range of timestamp", argument)));
    if (interval->month == 0)
        // The days alone may overflow although the hours would bring the sum back into range.
        return duration{static_cast<int64>(static_cast<int128>(interval->day) * USECS_PER_DAY + interval->time)};

    const Timestamp now = GetCurrentTimestamp();
    return duration{DatumGetTimestamp(DirectFunctionCall2(timestamp_pl_interval, TimestampGetDatum(now),
                                                          IntervalPGetDatum(interval))) -
                    now};
}

} // namespace

void require_writable(const char *function)
{
    PreventCommandIfParallelMode(function);
    if (RecoveryInProgress())
        ereport(ERROR, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION), errmsg("cannot execute %s on a standby", function),
                        errhint("Connect to the primary, for example with target_session_attrs=read-write.")));
    if (XactReadOnly)
        ereport(ERROR, (errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
                        errmsg("cannot execute %s in a read-only transaction", function),
                        errhint("Use SET TRANSACTION READ WRITE, and look at default_transaction_read_only.")));
}

// Assertions compare the name with the declaration, because a position says nothing.
int arguments::next(const char *name)
{
#ifdef USE_ASSERT_CHECKING
    HeapTuple function = SearchSysCache1(PROCOID, ObjectIdGetDatum(fcinfo_->flinfo->fn_oid));
    Oid *types;
    char **names;
    char *modes;
    Assert(next_ < get_func_arg_info(function, &types, &names, &modes) && strcmp(names[next_], name) == 0);
    ReleaseSysCache(function);
#else
    (void) name;
#endif
    return next_++;
}

int arguments::required(const char *name, const char *hint)
{
    FunctionCallInfo fcinfo = fcinfo_;
    const int argument = next(name);
    if (PG_ARGISNULL(argument))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be NULL", name),
                        hint ? errhint("%s", hint) : 0));
    return argument;
}

lock_names arguments::name()
{
    const auto names = stored_name();
    require_not_empty(names.front(), "name");
    return names;
}

lock_names arguments::stored_name()
{
    FunctionCallInfo fcinfo = fcinfo_;
    auto *const name = static_cast<lock_name *>(palloc(sizeof(lock_name)));
    *name = make_name(PG_GETARG_DATUM(required("name")));
    return {name, 1};
}

lock_names arguments::names()
{
    const auto names = make_names(array("name", TEXTOID));
    for (const auto &name : names)
        require_not_empty(name, "an element of name");

    // All callers use the same order, so that two of them that extend, release or complete several locks never wait for
    // each other.
    std::sort(names.begin(), names.end(), is_before);
    const auto twin = std::adjacent_find(names.begin(), names.end(), is_same);
    if (twin != names.end())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("name must not contain \"%.*s\" twice", SV(twin->bytes))));
    return names;
}

wait_request arguments::waiters()
{
    const auto names = make_names(array("names", TEXTOID));
    const auto numbers = array("which", INT4OID);
    if (names.size() != numbers.size())
        ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("which must be as long as names")));
    auto *const which = static_cast<int32 *>(palloc(sizeof(int32) * numbers.size()));
    std::transform(numbers.begin(), numbers.end(), which, [](Datum number) { return DatumGetInt32(number); });

    auto wait = span("wait");
    if (const auto limit = pg::time_limit(); limit > duration::zero())
        wait = std::min(wait, limit / 2);
    return {names, which, wait, id("wait_id")};
}

// The elements of an array that is not empty and has no NULLs.
std::span<Datum> arguments::array(const char *name, Oid type)
{
    FunctionCallInfo fcinfo = fcinfo_;
    ArrayType *const array = PG_GETARG_ARRAYTYPE_P(required(name));
    if (ARR_NDIM(array) > 1)
        ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("%s must be an array of one dimension", name)));
    const int given = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
    if (given > most_names)
        ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
                        errmsg("%s must not have more than %d elements", name, most_names),
                        errdetail("The array has %d elements.", given),
                        errhint("Use one name for what is always locked together, or several calls.")));

    Datum *elements;
    bool *nulls;
    int count;
    int16 length;
    bool by_value;
    char alignment;
    get_typlenbyvalalign(type, &length, &by_value, &alignment);
    deconstruct_array(array, type, length, by_value, alignment, &elements, &nulls, &count);
    if (count == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be an empty array", name)));
    if (std::any_of(nulls, nulls + count, [](bool is_null) { return is_null; }))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not contain NULL elements", name)));
    return {elements, static_cast<size_t>(count)};
}

duration arguments::at_most()
{
    FunctionCallInfo fcinfo = fcinfo_;
    if (const auto chosen = PG_ARGISNULL(next_) ? settings::default_at_most() : std::nullopt) {
        next("at_most");
        return *chosen;
    }
    const int argument =
        required("at_most", "Say how long the lock may last if nobody releases it, or set shedlock.default_at_most.");
    const auto at_most = to_duration(PG_GETARG_INTERVAL_P(argument), "at_most");
    if (at_most < shortest_lease)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("at_most must be at least 1 millisecond")));
    return at_most;
}

duration arguments::at_least(int argument, duration at_most)
{
    FunctionCallInfo fcinfo = fcinfo_;
    const auto at_least = to_duration(PG_GETARG_INTERVAL_P(argument), "at_least");
    if (at_least < duration::zero())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("at_least must not be negative")));
    if (at_least > at_most)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("at_least must not be longer than at_most"),
                        errhint("at_least keeps the lock that long even if it is released earlier; at_most ends "
                                "it even if it is not released.")));
    return at_least;
}

duration arguments::span(const char *name)
{
    FunctionCallInfo fcinfo = fcinfo_;
    const auto span = to_duration(PG_GETARG_INTERVAL_P(required(name)), name);
    if (span < duration::zero())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be negative", name)));
    return span;
}

std::optional<instant> arguments::tick()
{
    FunctionCallInfo fcinfo = fcinfo_;
    const int argument = next("tick");
    if (PG_ARGISNULL(argument))
        return std::nullopt;
    const TimestampTz given = PG_GETARG_TIMESTAMPTZ(argument);
    if (TIMESTAMP_NOT_FINITE(given))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("tick must be finite")));
    const auto tick = pg::to_instant(given);
    if (tick > pg::clock_now() + tick_tolerance)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("tick must not be more than one minute ahead of the database server's clock"),
                        errhint("Pass the instant that the schedule meant, for example shedlock_tick('1 hour').")));
    return tick;
}

acquire_request arguments::acquire(lock_names names)
{
    acquire_request request{names, at_most(), {}, {}, {}};
    request.at_least = at_least(required("at_least", "An at_least of '0' frees the lock as soon as it is released."),
                                *request.at_most);
    request.wait = span("wait");
    request.asked = asked();
    return request;
}

tick_request arguments::asked()
{
    tick_request asked{tick()};
    asked.retry = flag("retry");
    if (asked.retry && !asked.tick)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("retry needs a tick"),
                        errhint("It means that a tick is still due when its last run was not done.")));
    asked.start_within = start_within(asked.tick);
    return asked;
}

std::optional<duration> arguments::start_within(const std::optional<instant> &tick)
{
    FunctionCallInfo fcinfo = fcinfo_;
    const int argument = next("start_within");
    if (PG_ARGISNULL(argument))
        return std::nullopt;
    const auto start_within = to_duration(PG_GETARG_INTERVAL_P(argument), "start_within");
    if (start_within <= duration::zero())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("start_within must be positive")));
    if (!tick)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("start_within needs a tick"),
                        errhint("It is how long after its tick a run may begin.")));
    return start_within;
}

extend_request arguments::extend(lock_names names)
{
    FunctionCallInfo fcinfo = fcinfo_;
    extend_request request{names, at_most(), std::nullopt};
    if (const int argument = next("at_least"); !PG_ARGISNULL(argument))
        request.at_least = at_least(argument, request.at_most);
    return request;
}

release_request arguments::release(lock_names names)
{
    const bool done = flag("done");
    return {names, done, text_if_any("detail")};
}

release_request arguments::release_token(lock_names names)
{
    const bool done = flag("done");
    const bool nowait = flag("nowait");
    return {names, done, text_if_any("detail"), nowait};
}

history_request arguments::past_runs()
{
    FunctionCallInfo fcinfo = fcinfo_;
    history_request request{};
    if (const int argument = next("names"); !PG_ARGISNULL(argument))
        request.names = distinct_names(PG_GETARG_ARRAYTYPE_P(argument));
    if (const int argument = next("since"); !PG_ARGISNULL(argument))
        request.since = pg::to_instant(PG_GETARG_TIMESTAMPTZ(argument));
    if (const int argument = next("latest"); !PG_ARGISNULL(argument))
        request.latest = PG_GETARG_INT32(argument);
    if (request.latest.value_or(0) < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("latest must not be negative")));
    if (request.latest && !request.names)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("latest needs names"),
                        errhint("It is the number of rows of each name.")));
    return request;
}

instant arguments::token()
{
    FunctionCallInfo fcinfo = fcinfo_;
    const int argument =
        required("token", "A NULL token is what shedlock_acquire_token gives when the lock was refused.");
    // The least and the greatest bigint would be infinite times, which a row may have that was edited by hand. Each is
    // replaced by its neighbour, which no acquisition ever has.
    return std::clamp(instant{duration{PG_GETARG_INT64(argument)}}, never + duration{1}, forever - duration{1});
}

int64 arguments::id(const char *name)
{
    FunctionCallInfo fcinfo = fcinfo_;
    return PG_GETARG_INT64(required(name));
}

bool arguments::flag(const char *name)
{
    FunctionCallInfo fcinfo = fcinfo_;
    return PG_GETARG_BOOL(required(name));
}

std::string_view arguments::text_if_any(const char *name)
{
    FunctionCallInfo fcinfo = fcinfo_;
    const int argument = next(name);
    return PG_ARGISNULL(argument) ? std::string_view{} : pg::view_of(PG_GETARG_TEXT_PP(argument));
}

const char *arguments::command()
{
    FunctionCallInfo fcinfo = fcinfo_;
    const char *const command = text_to_cstring(PG_GETARG_TEXT_PP(required("command")));
    const std::string_view view{command};
    if (std::all_of(view.begin(), view.end(), is_blank))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("command must not be empty")));
    return command;
}

} // namespace shedlock
