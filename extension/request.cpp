#include "request.hpp"

#include "settings.hpp"

namespace shedlock {

namespace {

// now + at_most and now + at_least must stay within the range of timestamp. Half of that range for each is far more
// than any job needs (140,000 years), and keeps every sum in lease.cpp from overflowing.
constexpr double longest_span = 4.5e18;

constexpr bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

void check_name(const lock_name &name, const char *argument)
{
    if (name.bytes.empty())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be empty", argument)));
}

lock_name make_name(Datum datum)
{
    return to_lock_name(DatumGetTextPP(datum));
}

void require_not_null(FunctionCallInfo fcinfo, int argument, const char *name, const char *hint = nullptr)
{
    if (PG_ARGISNULL(argument))
        ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be NULL", name),
                        hint ? errhint("%s", hint) : 0));
}

// The elements of an array that is not empty and has no NULLs.
std::span<Datum> read_array(FunctionCallInfo fcinfo, int argument, const char *name, Oid type)
{
    require_not_null(fcinfo, argument, name);

    ArrayType *const array = PG_GETARG_ARRAYTYPE_P(argument);
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

lock_names make_names(std::span<const Datum> elements)
{
    auto *const names = static_cast<lock_name *>(palloc(sizeof(lock_name) * elements.size()));
    std::transform(elements.begin(), elements.end(), names, make_name);
    return {names, elements.size()};
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

duration read_at_most(FunctionCallInfo fcinfo, int argument)
{
    if (const auto chosen = PG_ARGISNULL(argument) ? settings::default_at_most() : std::nullopt)
        return *chosen;
    require_not_null(fcinfo, argument, "at_most",
                     "Say how long the lock may last if nobody releases it, or set shedlock.default_at_most.");
    const auto at_most = to_duration(PG_GETARG_INTERVAL_P(argument), "at_most");
    if (at_most < shortest_lease)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("at_most must be at least 1 millisecond")));
    return at_most;
}

duration read_at_least(FunctionCallInfo fcinfo, int argument, duration at_most)
{
    const auto at_least = to_duration(PG_GETARG_INTERVAL_P(argument), "at_least");
    if (at_least < duration::zero())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("at_least must not be negative")));
    if (at_least > at_most)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("at_least must not be longer than at_most"),
                        errhint("at_least keeps the lock that long even if it is released earlier; at_most ends "
                                "it even if it is not released.")));
    return at_least;
}

duration read_not_negative(FunctionCallInfo fcinfo, int argument, const char *name)
{
    require_not_null(fcinfo, argument, name);
    const auto span = to_duration(PG_GETARG_INTERVAL_P(argument), name);
    if (span < duration::zero())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be negative", name)));
    return span;
}

bool read_yes_or_no(FunctionCallInfo fcinfo, int argument, const char *name)
{
    require_not_null(fcinfo, argument, name);
    return PG_GETARG_BOOL(argument);
}

std::optional<instant> read_tick(FunctionCallInfo fcinfo, int argument)
{
    if (PG_ARGISNULL(argument))
        return std::nullopt;
    const auto tick = pg::to_instant(PG_GETARG_TIMESTAMPTZ(argument));
    if (tick == never || tick == forever)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("tick must be finite")));
    if (tick > pg::clock_now() + tick_tolerance)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("tick must not be more than one minute ahead of the database server's clock"),
                        errhint("Pass the instant that the schedule meant, for example shedlock_tick('1 hour').")));
    return tick;
}

// tick, retry
tick_request read_tick_request(FunctionCallInfo fcinfo, int argument)
{
    const tick_request asked{read_tick(fcinfo, argument), read_yes_or_no(fcinfo, argument + 1, "retry")};
    if (asked.retry && !asked.tick)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("retry needs a tick"),
                        errhint("It means that a tick is still due when its last run was not done.")));
    return asked;
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

lock_names read_name(FunctionCallInfo fcinfo, int argument)
{
    const auto names = read_stored_name(fcinfo, argument);
    check_name(names.front(), "name");
    return names;
}

lock_names read_stored_name(FunctionCallInfo fcinfo, int argument)
{
    require_not_null(fcinfo, argument, "name");
    auto *const name = static_cast<lock_name *>(palloc(sizeof(lock_name)));
    *name = make_name(PG_GETARG_DATUM(argument));
    return {name, 1};
}

lock_names read_names(FunctionCallInfo fcinfo, int argument)
{
    const auto names = make_names(read_array(fcinfo, argument, "name", TEXTOID));
    for (const auto &name : names)
        check_name(name, "an element of name");

    // All callers use the same order, so that two of them that extend, release or complete several locks never wait for
    // each other.
    std::sort(names.begin(), names.end(), [](const lock_name &a, const lock_name &b) { return a.bytes < b.bytes; });
    const auto twin = std::adjacent_find(names.begin(), names.end(),
                                         [](const lock_name &a, const lock_name &b) { return a.bytes == b.bytes; });
    if (twin != names.end())
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("name must not contain \"%.*s\" twice", SV(twin->bytes))));
    return names;
}

acquire_request read_acquire(FunctionCallInfo fcinfo, int argument, lock_names names)
{
    const auto at_most = read_at_most(fcinfo, argument);
    require_not_null(fcinfo, argument + 1, "at_least", "An at_least of '0' frees the lock as soon as it is released.");
    return {names, at_most, read_at_least(fcinfo, argument + 1, at_most),
            read_not_negative(fcinfo, argument + 2, "wait"), read_tick_request(fcinfo, argument + 3)};
}

acquire_request read_pause(FunctionCallInfo fcinfo, int argument, lock_names names)
{
    return {names, std::nullopt, duration::zero(), read_not_negative(fcinfo, argument, "wait"), {}};
}

extend_request read_extend(FunctionCallInfo fcinfo, int argument, lock_names names)
{
    const auto at_most = read_at_most(fcinfo, argument);
    if (PG_ARGISNULL(argument + 1))
        return {names, at_most, std::nullopt};
    return {names, at_most, read_at_least(fcinfo, argument + 1, at_most)};
}

wait_request read_wait(FunctionCallInfo fcinfo)
{
    const auto names = make_names(read_array(fcinfo, 0, "names", TEXTOID));
    const auto numbers = read_array(fcinfo, 1, "which", INT4OID);
    if (names.size() != numbers.size())
        ereport(ERROR, (errcode(ERRCODE_ARRAY_SUBSCRIPT_ERROR), errmsg("which must be as long as names")));
    auto *const which = static_cast<int32 *>(palloc(sizeof(int32) * numbers.size()));
    std::transform(numbers.begin(), numbers.end(), which, [](Datum number) { return DatumGetInt32(number); });

    auto wait = read_not_negative(fcinfo, 2, "wait");
    if (const auto limit = pg::time_limit(); limit > duration::zero())
        wait = std::min(wait, limit / 2);
    return {names, which, wait, read_wait_id(fcinfo, 3)};
}

int64 read_wait_id(FunctionCallInfo fcinfo, int argument)
{
    require_not_null(fcinfo, argument, "wait_id");
    return PG_GETARG_INT64(argument);
}

instant read_token(FunctionCallInfo fcinfo, int argument)
{
    require_not_null(fcinfo, argument, "token",
                     "A NULL token is what shedlock_acquire_token gives when the lock was refused.");
    return instant{duration{PG_GETARG_INT64(argument)}};
}

bool read_done(FunctionCallInfo fcinfo, int argument)
{
    return read_yes_or_no(fcinfo, argument, "done");
}

bool read_on(FunctionCallInfo fcinfo, int argument)
{
    return read_yes_or_no(fcinfo, argument, "on");
}

bool read_nowait(FunctionCallInfo fcinfo, int argument)
{
    return read_yes_or_no(fcinfo, argument, "nowait");
}

bool read_ends_with_session(FunctionCallInfo fcinfo, int argument)
{
    return read_yes_or_no(fcinfo, argument, "ends_with_session");
}

const char *read_command(FunctionCallInfo fcinfo, int argument)
{
    require_not_null(fcinfo, argument, "command");
    const char *const command = text_to_cstring(PG_GETARG_TEXT_PP(argument));
    const std::string_view view{command};
    if (std::all_of(view.begin(), view.end(), is_blank))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("command must not be empty")));
    return command;
}

std::string_view read_holder(FunctionCallInfo fcinfo, int argument)
{
    return PG_ARGISNULL(argument) ? std::string_view{} : pg::view_of(PG_GETARG_TEXT_PP(argument));
}

void require_storable(const lock_name &name, int limit)
{
    check_name(name, "name");
    if (name.bytes.front() == '{' && name.bytes.back() == '}')
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("name is an array literal: \"%.*s\"", SV(name.bytes)),
                 errhint("For several names, cast it to text[]: $1::text[]. No lock has this as its own name.")));
    if (name.bytes.size() <= static_cast<size_t>(limit))
        return; // no more characters than bytes
    const int length = pg_mbstrlen_with_len(name.bytes.data(), static_cast<int>(name.bytes.size()));
    if (length > limit)
        ereport(ERROR, (errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
                        errmsg("name is %d characters long, but the lock table's column holds %d", length, limit),
                        errdetail("The name begins with \"%.*s\".",
                                  pg_mbcharcliplen(name.bytes.data(), static_cast<int>(name.bytes.size()), 40),
                                  name.bytes.data())));
}

} // namespace shedlock
