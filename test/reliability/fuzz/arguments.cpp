// The errors that arguments cause: those in the table of arguments in docs/reference.md, and those of PostgreSQL itself
// for impossible values.
#include "oracle.hpp"

#include <algorithm>

namespace {

constexpr __int128 day = 86'400 * static_cast<__int128>(second);
constexpr __int128 millisecond = second / 1000;

// More than `impossible` microseconds from now is beyond the range of timestamp. Beyond `doubtful` both outcomes are
// allowed, because sums must fit as well.
constexpr __int128 impossible = 9'222'600'000'000'000'000;
constexpr __int128 before_history = -200'000'000'000'000'000; // 6,300 years ago; timestamps begin in 4713 BC
constexpr __int128 doubtful = 4'400'000'000'000'000'000;      // 139,000 years must work

bool is_infinite(const interval &i)
{
    return (i.microseconds == INT64_MAX && i.days == INT32_MAX && i.months == INT32_MAX) ||
           (i.microseconds == INT64_MIN && i.days == INT32_MIN && i.months == INT32_MIN);
}

// If there are months, they are added first, then days, then the rest, and each sum must be a timestamp.
bool has_huge_part(const interval &i)
{
    const auto is_huge = [](__int128 part) { return part > doubtful || part < before_history; };
    const __int128 months = i.months * (31 * day);
    return i.months != 0 && (is_huge(months) || is_huge(months + i.days * day) || is_huge(i.microseconds));
}

// 22004 if it is NULL, 22023 below the minimum, 22008 beyond the range of timestamp.
void check_interval(const std::optional<interval> &given, __int128 at_least, const circumstances &about,
                    expected_errors &errors)
{
    if (!given)
        return errors.must("22004");
    if (is_infinite(*given) && about.server_version >= 170000)
        return errors.must("22023");
    const auto span = length_of(*given);
    if (span.least > impossible)
        errors.must("22008");
    if (span.most > doubtful || span.least < before_history || has_huge_part(*given))
        errors.may("22008");
    if (span.least < at_least)
        errors.may_or_must(span.most < at_least, "22023");
}

bool is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_for_administrators(function what)
{
    return what == function::pause || what == function::resume || what == function::force_release;
}

void check_text(const std::optional<std::string> &given, const circumstances &about, expected_errors &errors)
{
    if (given && !is_valid(about.of_database, *given))
        errors.must("22021");
}

// If a row has the name, it is accepted, even if it is too long; the empty name only from administrators. Without a
// row, only a name that can be stored is accepted.
void check_name(const std::optional<std::string> &name, const call &made, const circumstances &about, const rows &known,
                expected_errors &errors)
{
    if (!name)
        return errors.must("22004");
    check_text(name, about, errors);
    const bool has_row = known.count(*name) > 0;
    if (name->empty() && !(has_row && is_for_administrators(made.what)))
        errors.must("22023");
    const bool is_too_long =
        is_valid(about.of_database, *name) && count_characters(about.of_database, *name) > about.name_limit;
    const bool is_array_literal = !name->empty() && name->front() == '{' && name->back() == '}';
    if (!is_too_long && !is_array_literal)
        return;
    const auto refusal = is_array_literal ? "22023" : "22001";
    if (has_row && about.is_portable && known.at(*name).locked_at == minus_infinity)
        errors.may(refusal); // the portable edition treats that as a row that was never acquired
    if (!has_row) {
        // With several names, the portable edition may find another one lost before it finds this.
        const bool is_acquire = made.what == function::acquire || made.what == function::acquire_token;
        errors.may_or_must(!made.is_array || !about.is_portable || is_acquire, refusal);
        if (made.what == function::complete || made.what == function::complete_token)
            errors.may("SL001"); // for an earlier name
    }
}

void check_names(const call &made, const circumstances &about, const rows &known, expected_errors &errors)
{
    if (made.name_is_null)
        return errors.must("22004");
    if (!made.is_array)
        return check_name(made.names.front(), made, about, known, errors);
    if (made.dimensions > 6)
        return errors.must("54000");
    if (made.dimensions > 0 && static_cast<std::int64_t>(made.lower_bound) +
                                       std::max<std::int64_t>(static_cast<std::int64_t>(made.names.size()), 1) >
                                   INT32_MAX)
        errors.may_or_must(!made.names.empty(), "54000");
    if (made.names.empty() || made.dimensions == 0)
        return errors.must("22023");
    if (made.dimensions > 1)
        errors.must("2202E");
    for (const auto &name : made.names)
        check_name(name, made, about, known, errors);
    const auto distinct = std::set<std::optional<std::string>>(made.names.begin(), made.names.end());
    if (distinct.size() < made.names.size())
        errors.must("22023");
}

// The range of timestamps, and so of ticks.
constexpr moment first = -211'813'488'000'000'000, end = 9'223'371'331'200'000'000; // 4713 BC, 294277 AD

// The portable edition converts the token of a guard or a completion to a timestamp, and calculates with it.
void check_token(std::optional<std::int64_t> token, const call &made, const circumstances &about,
                 expected_errors &errors)
{
    const bool is_change = made.what == function::extend_token || made.what == function::release_token;
    if (!token)
        errors.must("22004");
    else if (about.is_portable && !is_change && (*token < first + epoch_difference || *token >= end))
        errors.may("22008");
    if (about.is_portable && token == INT64_MIN)
        errors.may("22003");
}

void check_tick(const std::optional<moment> &tick, moment before, moment after, expected_errors &errors)
{
    if (!tick)
        return;
    if (*tick == infinity || *tick == minus_infinity)
        return errors.must("22023");
    if (*tick < first || *tick >= end)
        return errors.must("22008");
    if (*tick > before + 60 * second)
        errors.may_or_must(*tick > after + 60 * second, "22023");
}

void check_lease(const call &made, const session &caller, const circumstances &about, bool is_extend,
                 expected_errors &errors)
{
    const auto at_most = made.at_most ? made.at_most : caller.default_at_most;
    check_interval(at_most, millisecond, about, errors);
    if (is_extend && !made.at_least)
        return;
    check_interval(made.at_least, 0, about, errors);
    if (at_most && made.at_least && length_of(*made.at_least).most > length_of(*at_most).least)
        errors.may_or_must(length_of(*made.at_least).least > length_of(*at_most).most, "22023");
}

void check_command(const std::optional<std::string> &sql, expected_errors &errors)
{
    if (!sql)
        errors.must("22004");
    else if (std::all_of(sql->begin(), sql->end(), is_blank))
        errors.must("22023");
}

} // namespace

length length_of(const interval &i)
{
    const __int128 rest = i.microseconds + i.days * day;
    // Over 400 years a month has 30.436875 days on average, and no number of months deviates from that by three days. A
    // single month has 28 to 31 days.
    const __int128 average = i.months * (30'436'875 * day / 1'000'000);
    const __int128 least = std::max(average - 3 * day, std::min(i.months * (28 * day), i.months * (31 * day)));
    const __int128 most = std::min(average + 3 * day, std::max(i.months * (28 * day), i.months * (31 * day)));
    return {rest + least, rest + most};
}

expected_errors errors_of(const call &made, const session &caller, const circumstances &about, const rows &known,
                          moment before, moment after)
{
    expected_errors errors;
    const bool is_extend = made.what == function::extend || made.what == function::extend_token;
    for (const char letter : signature_of(made.what).arguments)
        switch (letter) {
        case 'n':
            check_names(made, about, known, errors);
            break;
        case 'k':
            check_token(made.token, made, about, errors);
            break;
        case 'm':
            check_lease(made, caller, about, is_extend, errors);
            break;
        case 'w':
            check_interval(made.wait, 0, about, errors);
            break;
        case 't':
            check_tick(made.tick, before, after, errors);
            break;
        case 'r':
            if (!made.retry)
                errors.must("22004");
            else if (*made.retry && !made.tick)
                errors.must("22023");
            break;
        case 's':
            if (!made.start_within)
                break;
            check_interval(made.start_within, 1, about, errors);
            if (!made.tick)
                errors.must("22023");
            break;
        case 'd':
            if (!made.done)
                errors.must("22004");
            break;
        case 'e':
            if (!made.ends_with_session)
                errors.must("22004");
            break;
        case 'x':
            check_text(made.text, about, errors);
            if (made.what == function::run)
                check_command(made.text, errors);
            break;
        default: // 'l' is checked with 'm'
            break;
        }
    return errors;
}
