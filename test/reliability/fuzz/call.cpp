#include "call.hpp"

#include <algorithm>
#include <cstdlib>

namespace {

constexpr signature signatures[functions] = {
    {"shedlock_acquire", "nmlwtrse", true}, {"shedlock_acquire_token", "nmlwtrsxe", true},
    {"shedlock_extend", "nml", true},       {"shedlock_extend_token", "nkml", true},
    {"shedlock_release", "ndx", true},      {"shedlock_release_token", "nkd", true},
    {"shedlock_guard", "n", false},         {"shedlock_guard_token", "nk", false},
    {"shedlock_complete", "n", true},       {"shedlock_complete_token", "nk", true},
    {"shedlock_run", "nxmlwtrs", false},    {"shedlock_pause", "nxw", false},
    {"shedlock_resume", "n", false},        {"shedlock_force_release", "n", false},
};

constexpr command commands[] = {
    {"SELECT 1", nullptr},
    {"SELECT 1; SELECT 'a''b;c'", nullptr},
    {"DO $$ BEGIN COMMIT; END $$", nullptr, "2D000"},
    {"SELECT 1/0", "22012"},
    {"DO $$ BEGIN PERFORM 1/0; END $$", "22012"},
    {"DO $$ BEGIN RAISE SQLSTATE 'SL001'; END $$", "SL001"},
    {"SELEKT", "42601"},
    {"'", "42601"},
    {"SELECT %s %n", "42601"},
    {"COMMIT", "2D000", "0A000"},
    {"COPY (SELECT 1) TO STDOUT", "0A000"},
    {"SELECT * FROM no_such_table", "42P01"},
    {"", "22023"},
    {" \n\t", "22023"},
};

std::string any_blank(random_numbers &random)
{
    return {" \t\n\v\f\r"[random.between(0, 5)]};
}

std::string any_name(random_numbers &random, const knowledge &about)
{
    switch (random.between(1, 40)) {
    case 1:
    case 2:
        return any_bytes(random);
    case 3:
        return nasty_text(random) + any_bytes(random);
    case 4:
        return of_length(random, about.of_database,
                         about.name_limit + static_cast<std::size_t>(random.between(0, 2)) - 1);
    case 5:
        return of_length(random, about.of_database,
                         static_cast<std::size_t>(random.between(0, 2) ? random.between(0, 300) : 20'000));
    case 6:
    case 7: // would be another name's lock if blanks did not count
        return any_blank(random) + random.any_of(about.names);
    case 8:
    case 9:
        return random.any_of(about.names) + any_blank(random);
    case 10:
        return "";
    case 11: // any name in the table, even one that was inserted by hand
    case 12:
        if (about.known.empty())
            return "";
        return std::next(about.known.begin(), random.between(0, static_cast<std::int64_t>(about.known.size()) - 1))
            ->first;
    default:
        return random.any_of(about.names);
    }
}

void choose_names(random_numbers &random, const knowledge &about, call &made)
{
    made.is_array = signature_of(made.what).takes_arrays && random.one_in(3);
    made.name_is_null = random.one_in(100);
    if (!made.is_array) {
        made.names.emplace_back(any_name(random, about));
        return;
    }
    // Mostly valid arrays, because otherwise the many kinds of errors would hide each other.
    std::int64_t count = random.one_in(50) ? 0 : random.one_in(500) ? 300 : random.between(1, 4);
    while (count-- > 0)
        made.names.emplace_back(random.any_of(about.names));
    if (!random.one_in(10)) { // without duplicates
        std::sort(made.names.begin(), made.names.end());
        made.names.erase(std::unique(made.names.begin(), made.names.end()), made.names.end());
    }
    if (!made.names.empty() && random.one_in(10))
        made.names.back() = any_name(random, about);
    if (!made.names.empty() && random.one_in(50))
        made.names.front() = std::nullopt;
    if (random.one_in(30))
        made.dimensions = static_cast<std::int32_t>(random.between(0, 7));
    if (random.one_in(5))
        made.lower_bound =
            random.any_of(std::vector<std::int32_t>{INT32_MIN, INT32_MAX, INT32_MAX - 1, -10, -1, 0, 2, 7});
}

interval odd_interval(random_numbers &random)
{
    static constexpr interval list[] = {{0, 0, 0},
                                        {-1, 0, 0},
                                        {1, 0, 0},
                                        {999, 0, 0},
                                        {1000, 0, 0},
                                        {-second, 0, 0},
                                        {0, 1, 0},
                                        {0, -1, 0},
                                        {0, 0, 1},
                                        {0, 0, -1},
                                        {0, -31, 1},
                                        {0, -27, 1},
                                        {0, 31, -1},
                                        {0, 32, -1},
                                        {-second, 1, 0},
                                        {second, -1, 0},
                                        {0, 0, 12'000'000},
                                        {0, 0, -12'000'000},
                                        {0, 0, 140'000 * 12},
                                        {0, 0, 292'000 * 12},
                                        {0, 0, 300'000 * 12},
                                        {0, 51'000'000, 0},
                                        {0, 110'000'000, 0},
                                        {4'400'000'000'000'000'000, 0, 0},
                                        {INT64_MAX, 0, 0},
                                        {INT64_MIN, 0, 0},
                                        {0, INT32_MAX, 0},
                                        {0, INT32_MIN, 0},
                                        {0, 0, INT32_MAX},
                                        {0, 0, INT32_MIN},
                                        {INT64_MAX, INT32_MAX, INT32_MAX},
                                        {INT64_MIN, INT32_MIN, INT32_MIN}, // these two: infinite from PostgreSQL 17 on
                                        {INT64_MIN, 106'751'991, 0},
                                        {-9'000'000'000'000'000'000, 150'000'000, 0},
                                        {INT64_MAX, -106'751'991, 0},
                                        {INT64_MAX, 0, -3'500'000},
                                        {0, INT32_MAX, -70'000'000}};
    if (random.one_in(3))
        return {random.between(INT64_MIN, INT64_MAX) >> random.between(0, 63),
                static_cast<std::int32_t>(random.between(INT32_MIN, INT32_MAX) >> random.between(0, 31)),
                static_cast<std::int32_t>(
                    random.one_in(2) ? 0 : random.between(INT32_MIN, INT32_MAX) >> random.between(0, 31))};
    return random.any_of(list);
}

std::optional<interval> any_interval(random_numbers &random, interval usual)
{
    if (random.one_in(60))
        return std::nullopt;
    return random.one_in(12) ? odd_interval(random) : usual;
}

interval usual_at_most(random_numbers &random)
{
    static constexpr interval list[] = {{1000, 0, 0},         {20'000, 0, 0}, {60 * second, 0, 0},
                                        {600 * second, 0, 0}, {0, 1, 0},      {0, 0, 1}};
    return random.any_of(list);
}

bool is_surely_free(const knowledge &about, const call &made)
{
    return std::all_of(made.names.begin(), made.names.end(), [&](const auto &name) {
        const auto found = name ? about.known.find(*name) : about.known.end();
        return found == about.known.end() || found->second.lock_until <= about.now;
    });
}

// A long wait only if none is needed; other waits are errors, or very short.
std::optional<interval> any_wait(random_numbers &random, const knowledge &about, const call &made)
{
    const auto usual = random.one_in(8) ? interval{random.between(1, 2000), 0, 0} : interval{0, 0, 0};
    if (random.one_in(100) && is_surely_free(about, made) && !made.tick)
        return interval{0, 0, 1};
    const auto chosen = any_interval(random, usual);
    const bool may_be_long = chosen && (chosen->months > 0 || chosen->days > 0 || chosen->microseconds > 2000);
    return may_be_long ? usual : chosen;
}

// Mostly none; with a tick, often about as long as that is ago.
std::optional<interval> any_start_within(random_numbers &random, const knowledge &about, const call &made)
{
    if (!random.one_in(made.tick ? 3 : 50))
        return std::nullopt;
    const auto age = made.tick && *made.tick > 0 && *made.tick < about.now ? about.now - *made.tick : second;
    return any_interval(random, {std::max<std::int64_t>(age + random.between(-second, second), 1), 0, 0});
}

rows::const_iterator found_row(const knowledge &about, const call &made)
{
    return made.names.empty() || !made.names.front() ? about.known.end() : about.known.find(*made.names.front());
}

moment near(random_numbers &random, moment t)
{
    const bool is_finite = t != infinity && t != minus_infinity;
    return is_finite && random.one_in(3) ? t + random.between(-1, 1) : t;
}

std::optional<moment> any_tick(random_numbers &random, const knowledge &about, const call &made)
{
    if (!random.one_in(4))
        return std::nullopt;
    switch (random.between(1, 14)) {
    case 1:
        return infinity;
    case 2:
        return minus_infinity;
    case 3:
        return random.between(INT64_MIN, INT64_MAX);
    case 4:
        return about.now + random.between(50, 70) * second;
    case 5:
        return about.now + random.between(0, 50 * second);
    case 6:
        return about.now + (random.between(0, INT64_MAX / 2) >> random.between(0, 62));
    case 7: // the tick is the row's locked_at
        if (const auto found = found_row(about, made); found != about.known.end())
            return found->second.locked_at;
        return about.now;
    case 8: // the last tick, or a microsecond before or after it
    case 9:
        if (const auto found = found_row(about, made); found != about.known.end() && found->second.last_tick)
            return near(random, *found->second.last_tick);
        return about.now;
    case 10:
        if (const auto found = found_row(about, made); found != about.known.end() && found->second.last_done_tick)
            return near(random, *found->second.last_done_tick);
        return about.now;
    default:
        return about.now - (random.between(0, 100'000'000'000'000'000) >> random.between(0, 56));
    }
}

std::optional<bool> mostly(random_numbers &random, bool usual)
{
    if (random.one_in(60))
        return std::nullopt;
    return random.one_in(4) ? !usual : usual;
}

std::optional<std::int64_t> any_token(random_numbers &random, const knowledge &about, const call &made)
{
    const auto found = found_row(about, made);
    switch (random.between(1, 22)) {
    case 1:
        return std::nullopt;
    case 21: // possibly that of an earlier acquisition that is known to be done
    case 22:
        if (found != about.known.end() && found->second.last_done_tick)
            return static_cast<std::int64_t>(static_cast<std::uint64_t>(*found->second.last_done_tick) +
                                             static_cast<std::uint64_t>(epoch_difference));
        return 0;
    case 2:
        return random.any_of(std::vector<std::int64_t>{INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX});
    case 3:
        return random.between(INT64_MIN, INT64_MAX) >> random.between(0, 63);
    case 4:
    case 5: // the one in locked_by, which may differ if the row was edited
        if (found != about.known.end())
            return std::atoll(found->second.locked_by.substr(found->second.locked_by.rfind('#') + 1).c_str());
        return 0;
    default:
        // May overflow if the row was edited by hand.
        return static_cast<std::int64_t>(
            static_cast<std::uint64_t>(found == about.known.end() ? about.now : found->second.locked_at) +
            static_cast<std::uint64_t>(epoch_difference + (random.one_in(10) ? random.between(-1, 1) : 0)));
    }
}

// The row's own number, or one that nearly matches.
std::string number_near(random_numbers &random, const row *of)
{
    const auto token =
        of ? static_cast<std::uint64_t>(of->locked_at) + static_cast<std::uint64_t>(epoch_difference) : std::uint64_t{};
    const auto number = std::to_string(static_cast<std::int64_t>(token));
    switch (random.between(1, 36)) {
    case 1:
        return "0" + number;
    case 2:
        return "-" + number;
    case 3:
        return "+" + number;
    case 4:
        return number + " ";
    case 5:
        return number.substr(0, number.size() - 1);
    case 6:
        return number + "0";
    case 7:
        return std::to_string(static_cast<std::int64_t>(token + 1));
    case 8:
        return "";
    case 9:
        return "9223372036854775807";
    case 10:
        return "-9223372036854775808";
    case 11:
        return "0";
    case 12:
        return "-0";
    default:
        return number;
    }
}

std::optional<std::string> any_text(random_numbers &random, const knowledge &about, const call &made)
{
    if (random.one_in(made.what == function::run ? 50 : 4))
        return std::nullopt;
    if (made.what == function::run)
        return any_command(random).sql;
    const auto found = found_row(about, made);
    switch (random.between(1, 8)) {
    case 7:
    case 8:
        return near_ours(random, about, found == about.known.end() ? nullptr : &found->second);
    case 1:
        return any_bytes(random);
    case 2:
        return of_length(random, about.of_database, static_cast<std::size_t>(random.between(200, 300)));
    case 3:
        return "";
    default:
        return nasty_text(random);
    }
}

} // namespace

const signature &signature_of(function what)
{
    return signatures[static_cast<int>(what)];
}

const command &any_command(random_numbers &random)
{
    return random.any_of(commands);
}

const char *sqlstate_of_command(const std::string &sql, bool is_portable)
{
    const auto *const found =
        std::find_if(std::begin(commands), std::end(commands), [&](const command &c) { return sql == c.sql; });
    return is_portable && found->on_portable ? found->on_portable : found->sqlstate;
}

std::string near_session(random_numbers &random, const knowledge &about)
{
    static constexpr std::string_view pids[] = {"0", "1", "01", "999999999", "1234567890", "", "+1", "1 "};
    static constexpr std::string_view starts[] = {
        "0", "1", "01", "999999999999999999", "1234567890123456789", "", "-1", "946684800000000"};
    static constexpr std::string_view dots[] = {",", ",", ",", ":", "", ".."};
    static constexpr std::string_view servers[] = {"00000000", "ffffffff",  "0123abcd", "FFFFFFFF",
                                                   "1234567",  "123456789", "",         "abcdefgh"};
    const auto &own = random.any_of(about.sessions);
    const auto dot = own.find('.'), last_dot = own.rfind('.');
    const auto mostly = [&](const std::string &usual, const auto &others) {
        return random.one_in(9) ? std::string{random.any_of(others)} : usual;
    };
    auto text = mostly("/", std::vector{"", "//"}) + mostly(own.substr(1, dot - 1), pids) + mostly(".", dots) +
                mostly(own.substr(dot + 1, last_dot - dot - 1), starts) + mostly(".", dots) +
                mostly(own.substr(last_dot + 1), servers);
    if (random.one_in(8))
        text.insert(std::min<std::size_t>(text.size(), 1), "0");
    return text;
}

std::string near_ours(random_numbers &random, const knowledge &about, const row *of)
{
    static constexpr std::string_view heads[] = {"",
                                                 "",
                                                 "host",
                                                 "billing/2.14",
                                                 "batch/run/1.0",
                                                 "x/1.2.3",
                                                 "job#5",
                                                 "x*1",
                                                 "a/1.2:3",
                                                 "a/1.2!3",
                                                 "cron/tick5",
                                                 "paused: bob: x",
                                                 "paused: ",
                                                 "a\nb",
                                                 "/",
                                                 "#",
                                                 "released by force: bob",
                                                 "x/tick5/run",
                                                 "host:8080",
                                                 "host/1",
                                                 "host/1.2",
                                                 "10.0.0.1",
                                                 "2026-01-01 00:00:00",
                                                 "x/1.2:3/4.5",
                                                 "a/1.2&3",
                                                 "a/1.2.3:4",
                                                 "a/1.2.01234567:8",
                                                 "R&D"};
    static constexpr std::string_view marks[] = {":",  "!",  "&",  "#", "#", "*", "*", "*",
                                                 "::", "!:", "*#", "",  "/", "=", ": "};
    auto text = std::string{random.any_of(heads)};
    if (random.one_in(2)) {
        text += near_session(random, about);
        text += random.any_of(std::vector{":", "!", "!", "&", "&", "", "#"});
    } else {
        text += random.any_of(marks);
    }
    return text + number_near(random, of);
}

call random_call(random_numbers &random, const knowledge &about)
{
    static constexpr function often[] = {function::acquire,      function::acquire_token, function::extend,
                                         function::extend_token, function::release,       function::release_token,
                                         function::complete,     function::complete_token};
    call made{random.one_in(3) ? static_cast<function>(random.between(0, functions - 1)) : random.any_of(often)};
    choose_names(random, about, made);
    made.at_most = any_interval(random, usual_at_most(random));
    made.at_least =
        any_interval(random, random.one_in(4) ? interval{random.between(0, 1000), 0, 0} : interval{0, 0, 0});
    made.tick = any_tick(random, about, made);
    made.retry = made.tick || random.one_in(20) ? mostly(random, true) : false;
    made.start_within = any_start_within(random, about, made);
    made.done = mostly(random, true);
    made.ends_with_session = mostly(random, false);
    made.wait = any_wait(random, about, made);
    made.token = any_token(random, about, made);
    made.text = any_text(random, about, made);
    return made;
}
