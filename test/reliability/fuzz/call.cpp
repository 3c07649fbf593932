#include "call.hpp"

#include <algorithm>
#include <cstdlib>

namespace {

struct function {
    std::string_view name;
    std::vector<std::string_view> arguments; // some depend on those before them
    bool takes_list = false;
};

// The first ones are called more often.
const std::vector<function> functions = {
    {"acquire", {"name", "tick", "at_most", "at_least", "wait", "retry", "start_within", "ends_with_session"}, true},
    {"acquire_token",
     {"name", "tick", "at_most", "at_least", "wait", "retry", "start_within", "holder", "ends_with_session"},
     true},
    {"extend", {"name", "at_most", "at_least"}, true},
    {"extend_token", {"name", "token", "at_most", "at_least", "nowait"}, true},
    {"release", {"name", "done", "detail"}, true},
    {"release_token", {"name", "token", "done", "nowait", "detail"}, true},
    {"complete", {"name"}, true},
    {"complete_token", {"name", "token"}, true},
    {"guard", {"name"}},
    {"guard_token", {"name", "token"}},
    {"run", {"name", "tick", "command", "at_most", "at_least", "wait", "retry", "start_within"}},
    {"pause", {"name", "reason", "wait"}},
    {"resume", {"name"}},
    {"force_release", {"name"}},
    {"forget", {"name"}},
    {"not_due", {"name", "tick", "retry", "start_within"}},
    {"session_alive", {"session"}},
};
constexpr std::size_t called_often = 8;

constexpr std::string_view commands[] = {
    "SELECT 1",
    "SELECT 1; SELECT 'a''b;c'",
    "SELECT pass_time(1000000)",
    "SELECT pass_time(1000000); SELECT 1/0",
    "SELECT pass_time(86400000000)",
    "SELECT 1/0",
    "DO $$ BEGIN PERFORM 1/0; END $$",
    "DO $$ BEGIN RAISE SQLSTATE 'SL001'; END $$",
    "SELEKT",
    "'",
    "SELECT %s %n",
    "SELECT * FROM no_such_table",
    "",
    " \n\t",
};

constexpr unsigned boolean = 16, int8 = 20, text = 25, texts = 1009, timestamptz = 1184, time_span = 1186; // OIDs

struct interval {
    std::int64_t microseconds;
    std::int32_t days = 0, months = 0;
};

template <typename T> std::string big_endian(T number)
{
    std::string result(sizeof(T), '\0');
    for (std::size_t i = 0; i < sizeof(T); i++)
        result[i] = static_cast<char>(static_cast<std::uint64_t>(number) >> (8 * (sizeof(T) - 1 - i)));
    return result;
}

// Wraps around: rows are edited by hand.
std::int64_t next_to(std::int64_t number, std::int64_t by)
{
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(number) + static_cast<std::uint64_t>(by));
}

std::int64_t token_of(moment locked_at)
{
    return next_to(locked_at, epoch_difference);
}

value null(unsigned type)
{
    return {type, std::nullopt, "NULL"};
}

value number(unsigned type, std::optional<std::int64_t> given)
{
    return given ? value{type, big_endian(*given), std::to_string(*given)} : null(type);
}

value boolean_value(bool given)
{
    return {boolean, std::string(1, static_cast<char>(given)), given ? "true" : "false"};
}

value span(const interval &given)
{
    const auto [microseconds, days, months] = given;
    return {time_span, big_endian(microseconds) + big_endian(days) + big_endian(months),
            std::to_string(months) + " mons " + std::to_string(days) + " days " + std::to_string(microseconds) + " us"};
}

// Chooses the arguments of one call.
class chooser {
public:
    chooser(random_numbers &random, const knowledge &about) : random_(random), about_(about) {}
    call choose();

private:
    value choose(std::string_view argument);
    std::string any_name();
    value name();
    value list();
    value any_interval(interval usual);
    value at_most();
    value wait();
    value start_within();
    std::optional<moment> near(std::optional<moment>);
    std::optional<moment> tick();
    std::optional<std::int64_t> token();
    value mostly(bool usual);
    std::optional<std::string> free_text();
    [[nodiscard]] const row *first_row() const;
    [[nodiscard]] bool is_surely_free() const;

    random_numbers &random_;
    const knowledge &about_;
    call made_;
    bool takes_list_ = false;
    std::optional<moment> tick_;
};

call chooser::choose()
{
    const auto last = random_.one_in(3) ? functions.size() - 1 : called_often - 1;
    const auto &chosen = functions[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(last)))];
    made_.function = chosen.name;
    takes_list_ = chosen.takes_list;
    for (const auto argument : chosen.arguments)
        made_.arguments.emplace_back(argument, choose(argument));
    return std::move(made_);
}

value chooser::choose(std::string_view argument)
{
    if (argument == "name")
        return takes_list_ && random_.one_in(3) ? list() : name();
    if (argument == "tick")
        return number(timestamptz, tick_ = tick());
    if (argument == "token")
        return number(int8, token());
    if (argument == "at_most")
        return at_most();
    if (argument == "at_least")
        return any_interval({random_.one_in(4) ? random_.between(0, 1000) : 0});
    if (argument == "wait")
        return wait();
    if (argument == "start_within")
        return start_within();
    if (argument == "retry")
        return tick_ || random_.one_in(20) ? mostly(true) : boolean_value(false);
    if (argument == "done")
        return mostly(true);
    if (argument == "nowait" || argument == "ends_with_session")
        return mostly(false);
    if (argument == "session")
        return text_value(near_session(random_, about_));
    if (argument == "command")
        return text_value(random_.one_in(50) ? std::nullopt : std::optional<std::string>{random_.any_of(commands)});
    return text_value(free_text());
}

std::string chooser::any_name()
{
    const auto any_blank = [&] { return std::string{" \t\n\v\f\r"[random_.between(0, 5)]}; };
    if (!about_.its_moment.empty() && random_.one_in(2))
        return about_.its_moment;
    const auto length = [&](std::size_t characters) { return of_length(random_, about_.encoding, characters); };
    switch (random_.between(1, 40)) {
    case 1:
    case 2:
        return any_bytes(random_);
    case 3:
        return nasty_text(random_) + any_bytes(random_);
    case 4:
        return length(about_.name_limit + static_cast<std::size_t>(random_.between(0, 2)) - 1);
    case 5:
        return length(static_cast<std::size_t>(random_.between(0, 2) ? random_.between(0, 300) : 20'000));
    case 6:
    case 7: // would be another name's lock if blanks did not count
        return any_blank() + random_.any_of(about_.names);
    case 8:
    case 9:
        return random_.any_of(about_.names) + any_blank();
    case 10:
        return "";
    case 11: // any name in the table, even one that was inserted by hand
    case 12:
        if (about_.known.empty())
            return "";
        return std::next(about_.known.begin(), random_.between(0, static_cast<std::int64_t>(about_.known.size()) - 1))
            ->first;
    default:
        return random_.any_of(about_.names);
    }
}

value chooser::name()
{
    if (random_.one_in(100))
        return null(text);
    made_.names.push_back(any_name());
    return text_value(made_.names.front());
}

// Mostly valid lists, because otherwise the many kinds of errors would hide each other.
value chooser::list()
{
    if (random_.one_in(100))
        return null(texts);
    std::vector<std::optional<std::string>> names;
    for (auto count = random_.one_in(50) ? 0 : random_.one_in(500) ? 300 : random_.between(1, 4); count > 0; count--)
        names.emplace_back(random_.any_of(about_.names));
    if (!random_.one_in(10)) { // without duplicates
        std::sort(names.begin(), names.end());
        names.erase(std::unique(names.begin(), names.end()), names.end());
    }
    if (!names.empty() && random_.one_in(10))
        names.back() = any_name();
    if (!names.empty() && random_.one_in(50))
        names.front() = std::nullopt;
    for (const auto &one : names)
        if (one)
            made_.names.push_back(*one);
    static constexpr std::int32_t bounds[] = {INT32_MIN, INT32_MAX, INT32_MAX - 1, -10, -1, 0, 2, 7};
    return text_array(names, random_.one_in(30) ? static_cast<std::int32_t>(random_.between(0, 7)) : 1,
                      random_.one_in(5) ? random_.any_of(bounds) : 1);
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

value chooser::any_interval(interval usual)
{
    return random_.one_in(60) ? null(time_span) : span(random_.one_in(12) ? odd_interval(random_) : usual);
}

value chooser::at_most()
{
    static constexpr interval usual[] = {{1000}, {20'000}, {60 * second}, {600 * second}, {0, 1}, {0, 0, 1}};
    return any_interval(random_.any_of(usual));
}

bool chooser::is_surely_free() const
{
    return std::all_of(made_.names.begin(), made_.names.end(), [&](const auto &name) {
        const auto found = about_.known.find(name);
        return found == about_.known.end() || found->second.lock_until <= about_.now;
    });
}

// The clock stands still, so a wait would never end.
value chooser::wait()
{
    static constexpr interval refused[] = {{-1}, {0, -1}, {INT64_MIN}, {0, 0, -1}};
    if (is_surely_free() && !tick_)
        return any_interval({random_.one_in(50) ? 60 * second : 0});
    return span(random_.one_in(50) ? random_.any_of(refused) : interval{0});
}

// Mostly none; with a tick, often about as long as that is ago.
value chooser::start_within()
{
    if (!random_.one_in(tick_ ? 3 : 50))
        return null(time_span);
    const auto age = tick_ && *tick_ > 0 && *tick_ < about_.now ? about_.now - *tick_ : second;
    const auto off = random_.one_in(2) ? random_.between(-1, 1) : random_.between(-second, second);
    return any_interval({std::max<std::int64_t>(age + off, 1)});
}

const row *chooser::first_row() const
{
    const auto found = made_.names.empty() ? about_.known.end() : about_.known.find(made_.names.front());
    return found == about_.known.end() ? nullptr : &found->second;
}

std::optional<moment> chooser::near(std::optional<moment> t)
{
    const bool is_finite = t && *t != infinity && *t != minus_infinity;
    return is_finite && random_.one_in(3) ? *t + random_.between(-1, 1) : t.value_or(about_.now);
}

std::optional<moment> chooser::tick()
{
    if (!random_.one_in(4))
        return std::nullopt;
    const auto *const found = first_row();
    switch (random_.between(1, 14)) {
    case 1:
        return infinity;
    case 2:
        return minus_infinity;
    case 3:
        return random_.between(INT64_MIN, INT64_MAX);
    case 4: // up to a minute ahead is accepted
        return about_.now + 60 * second +
               (random_.one_in(2) ? random_.between(-1, 1) : random_.between(-second, second));
    case 5:
        return about_.now + random_.between(0, 50 * second);
    case 6:
        return about_.now + (random_.between(0, INT64_MAX / 2) >> random_.between(0, 62));
    case 7:
        return found ? found->locked_at : about_.now;
    case 8:
    case 9:
        return near(found ? found->last_tick : std::nullopt);
    case 10:
        return near(found ? found->last_done_tick : std::nullopt);
    default:
        return about_.now - (random_.between(0, 100'000'000'000'000'000) >> random_.between(0, 56));
    }
}

value chooser::mostly(bool usual)
{
    if (random_.one_in(60))
        return null(boolean);
    return boolean_value(random_.one_in(4) != usual);
}

std::optional<std::int64_t> chooser::token()
{
    static constexpr std::int64_t odd[] = {INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    const auto *const found = first_row();
    switch (random_.between(1, 22)) {
    case 1:
        return std::nullopt;
    case 2:
        return random_.any_of(odd);
    case 3:
        return random_.between(INT64_MIN, INT64_MAX) >> random_.between(0, 63);
    case 4:
    case 5: // the one in locked_by, which may differ if the row was edited
        return found ? std::atoll(found->locked_by.substr(found->locked_by.rfind('#') + 1).c_str()) : 0;
    case 6:
    case 7: // possibly that of an earlier acquisition that is known to be done
        return found && found->last_done_tick ? token_of(*found->last_done_tick) : 0;
    default:
        return next_to(token_of(found ? found->locked_at : about_.now),
                       random_.one_in(10) ? random_.between(-1, 1) : 0);
    }
}

std::optional<std::string> chooser::free_text()
{
    switch (random_.between(1, 11)) {
    case 1:
    case 2:
        return std::nullopt;
    case 3:
    case 4:
        return near_ours(random_, about_, first_row());
    case 5:
        return any_bytes(random_);
    case 6:
        return of_length(random_, about_.encoding, static_cast<std::size_t>(random_.between(200, 300)));
    case 7:
        return "";
    default:
        return nasty_text(random_);
    }
}

// The row's own number, or one that nearly matches.
std::string number_near(random_numbers &random, const row *of)
{
    const auto token = of ? token_of(of->locked_at) : 0;
    const auto number = std::to_string(token);
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
        return std::to_string(next_to(token, 1));
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

} // namespace

value text_value(const std::optional<std::string> &given)
{
    return given ? value{text, given, '"' + printable(*given) + '"'} : null(text);
}

// The format of array_send.
value text_array(const std::vector<std::optional<std::string>> &elements, std::int32_t dimensions,
                 std::int32_t lower_bound)
{
    auto bytes = big_endian(dimensions) + big_endian(std::int32_t{1}) + big_endian(static_cast<std::int32_t>(text));
    auto shown = "[" + std::to_string(dimensions) + " dimensions from " + std::to_string(lower_bound) + "]{";
    for (std::int32_t i = 0; i < dimensions; i++)
        bytes += big_endian(i == 0 ? static_cast<std::int32_t>(elements.size()) : 1) + big_endian(lower_bound);
    for (const auto &element : elements) {
        shown += text_value(element).shown + ",";
        if (dimensions > 0)
            bytes += element ? big_endian(static_cast<std::int32_t>(element->size())) + *element
                             : big_endian(std::int32_t{-1});
    }
    return {texts, bytes, shown + "}"};
}

std::string to_text(const call &made)
{
    std::string result{made.function};
    for (const auto &[name, value] : made.arguments)
        result += " " + std::string{name} + " " + value.shown;
    return result;
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
    return chooser{random, about}.choose();
}
