#include "command_line.hpp"

#include "actions.hpp"
#include "instant.hpp"
#include "literal.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <iterator>
#include <pwd.h>
#include <sstream>
#include <unistd.h>

namespace shedlock::tool {

namespace {

using microseconds = std::chrono::microseconds;

// CLI11 would parse "[a,b]" and "{}" as lists, "++" as the end of a subcommand, and names that begin with a dash as
// options; this prefix escapes them while it parses.
constexpr char disguise = '\1';

std::string disguised(const std::string &word)
{
    if (constexpr std::string_view name = "--name="; word.starts_with(name))
        return disguise + word.substr(name.size());
    return word.find_first_of({'[', '{', '+', disguise}) == 0 ? disguise + word : word;
}

std::string undisguised(const std::string &word)
{
    return word.starts_with(disguise) ? word.substr(1) : word;
}

template <typename Read>
CLI::Option *add_value(CLI::App *to, const std::string &name, const char *type, const Read &read,
                       const std::string &help)
{
    const auto read_plain = [read](const std::string &word) { read(undisguised(word)); };
    return to->add_option_function<std::string>(name, read_plain, help)->type_name(type);
}

template <typename Text>
CLI::Option *add_text(CLI::App *to, const std::string &name, Text &value, const std::string &help)
{
    return add_value(
        to, name, "TEXT", [&value](const std::string &text) { value = text; }, help);
}

template <typename Number> bool parse(std::string_view text, Number &number)
{
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc{} && end == text.data() + text.size();
}

template <typename Number> struct number_of {
    using type = Number;
};
template <typename Number> struct number_of<std::optional<Number>> {
    using type = Number;
};

// CLI11 itself would read 010 as eight.
template <typename Value>
CLI::Option *add_number(CLI::App *to, const std::string &name, Value &value, const std::string &help)
{
    const auto read = [&value, name](const std::string &text) {
        typename number_of<Value>::type number{};
        using limits = std::numeric_limits<decltype(number)>;
        if (!parse(text, number))
            throw CLI::ValidationError{name, "\"" + text + "\" is not a number from " + std::to_string(limits::min()) +
                                                 " to " + std::to_string(limits::max())};
        value = number;
    };
    return add_value(to, name, "NUMBER", read, help);
}

// The units of a duration, in microseconds, and their names for messages.
struct units {
    std::map<std::string_view, std::int64_t> sizes;
    const char *names;
};

const units of_times{{{"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", 3600000000}, {"d", 86400000000}},
                     "ms, s, m, h, d"};
// Months have no fixed size.
const units of_periods = [] {
    units more{of_times.sizes, "ms, s, m, h, d, w, mon"};
    more.sizes["w"] = 7 * more.sizes["d"];
    return more;
}();

microseconds to_duration(const std::string &name, const std::string &text, const units &allowed)
{
    const auto digits = std::min(text.find_first_not_of("0123456789"), text.size());
    const auto unit = allowed.sizes.find(std::string_view{text}.substr(digits));
    std::int64_t number = 0, whole = 0;
    if (unit == allowed.sizes.end() || !parse(std::string_view{text}.substr(0, digits), number) ||
        __builtin_mul_overflow(number, unit->second, &whole))
        throw CLI::ValidationError{name, "\"" + text + "\" is not a whole number with a unit (" + allowed.names +
                                             "), such as 10m, or is too large"};
    return microseconds{whole};
}

template <typename Duration>
CLI::Option *add_duration(CLI::App *to, const std::string &name, Duration &value, const std::string &help)
{
    const auto read = [&value, name](const std::string &text) { value = to_duration(name, text, of_times); };
    return add_value(to, name, "TIME", read, help);
}

// Months go to the server as the text of an interval. nullopt if it is no number of months.
std::optional<std::string> to_months(std::string_view text)
{
    std::uint16_t number = 0;
    if (!text.ends_with("mon") || !parse(text.substr(0, text.size() - 3), number))
        return std::nullopt;
    return std::to_string(number) + " months";
}

CLI::Option *add_period(CLI::App *to, const std::string &name, std::optional<microseconds> &value, std::string &months,
                        const std::string &help)
{
    const auto read = [&value, &months, name](const std::string &text) {
        if (const auto given = to_months(text))
            months = *given;
        else
            value = to_duration(name, text, of_periods);
    };
    return add_value(to, name, "TIME", read, help);
}

// An instant, which the server reads, or a time back from now, which begins with a digit and ends with a unit.
CLI::Option *add_since(CLI::App *to, schedule &runs, const std::string &help)
{
    const auto read = [&runs](const std::string &text) {
        const auto unit = text.find_first_not_of("0123456789");
        const bool is_time = unit != 0 && unit != std::string::npos &&
                             text.find_first_not_of("abcdefghijklmnopqrstuvwxyz", unit) == std::string::npos;
        runs.since_ago = is_time ? std::optional{to_duration("--since", text, of_times)} : std::nullopt;
        const auto instant = to_instant(text); // the server does not know @SECONDS
        runs.since = is_time ? std::nullopt : std::optional{instant ? to_text(*instant) : text};
    };
    return add_value(to, "--since", "INSTANT", read, help);
}

// The server reads the expression. But it takes a number for an interval, and if the quotes were forgotten, the first
// field is all that we get: the others look like names of locks.
template <typename Text>
CLI::Option *add_expression(CLI::App *to, const std::string &name, Text &value, const std::string &help)
{
    const auto read = [&value, name](const std::string &text) {
        std::istringstream words{text};
        const auto fields = std::distance(std::istream_iterator<std::string>{words}, {});
        if (fields != 5 && !text.starts_with('@'))
            throw CLI::ValidationError{name, "\"" + text +
                                                 "\" is not a crontab expression in quotes, of five fields or a word "
                                                 "such as @daily"};
        value = text;
    };
    return add_value(to, name, "TEXT", read, help);
}

CLI::Option *add_instant(CLI::App *to, const std::string &name,
                         std::optional<std::chrono::sys_time<microseconds>> &value, const std::string &help)
{
    const auto read = [&value, name](const std::string &text) {
        value = to_instant(text);
        if (!value)
            throw CLI::ValidationError{name, "\"" + text +
                                                 "\" is not an instant with its offset from UTC, e.g. "
                                                 "2026-11-22T10:00:00Z, nor @ and seconds since 1970"};
    };
    return add_value(to, name, "INSTANT", read, help);
}

std::string default_holder()
{
    const auto *const user = ::getpwuid(::geteuid());
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    return (user ? user->pw_name : std::to_string(::geteuid())) + '@' + host + ':' + std::to_string(::getpid());
}

void check_and_fill_in(request &asked)
{
    auto &how = asked.how;
    const bool has_every = how.every || !asked.months.empty(), has_cron = !how.cron.empty();
    if (has_every + has_cron + how.tick.has_value() > 1)
        throw usage_error{"--every, --cron or --tick, only one of them"};
    if (how.retry && !has_every && !has_cron && !how.tick)
        throw usage_error{"--retry needs --every, --cron or --tick"};
    if (how.start_within && !has_every && !has_cron && !how.tick)
        throw usage_error{"--start-within needs --every, --cron or --tick"};
    if (!how.zone.empty() && !has_every && !has_cron)
        throw usage_error{"--zone needs --every or --cron"};
    if (!asked.months.empty())
        how.cron = asked.months;
    if (asked.force && asked.names.size() > 1)
        throw usage_error{"--force takes one name"};
    if (asked.max_names < 1)
        throw usage_error{"--max-names must be at least 1"};
    if (how.holder.empty())
        how.holder = default_holder();
}

// Help of up to 120 columns, with lines that end where ours do. Without these settings CLI11 2.6 breaks them at 80.
template <class Formatter> void lay_out(Formatter &formatter)
{
    formatter.column_width(28);
    if constexpr (requires { formatter.enable_footer_formatting(false); }) { // 2.6 or later
        formatter.long_option_alignment_ratio(2.5F / 28);                    // not indented if there is no short one
        formatter.right_column_width(92);
        formatter.enable_description_formatting(false);
        formatter.enable_footer_formatting(false);
    }
}

// CLI11 does not know of the command after "--".
class usage_of_run : public CLI::Formatter {
public:
    usage_of_run() { lay_out(*this); }
    std::string make_usage(const CLI::App *, std::string) const override
    {
        return "Usage: shedlock run [OPTIONS] NAME... -- COMMAND ARG...\n";
    }
};

// The subcommands and their options. The options' values go into the request.
class menu {
public:
    explicit menu(request &asked) : asked_{asked}
    {
        app.name("shedlock");
        app.description("Lease locks for scheduled jobs: one run at a time across all hosts, the others skip.");
        app.footer(footer("\"1: ...\" explains the exit status 1."));
        app.set_version_flag("--version", "shedlock " SHEDLOCK_VERSION);
        auto *const dsn = add_text(&app, "--dsn", asked.connection, "Connection string or URI, as for psql");
        const auto read_command = [&asked](const std::string &command) {
            if (command.empty()) // an unset variable must not lead to the default database
                throw CLI::ValidationError{"--dsn-command", "there is no command"};
            asked.dsn_command = command;
        };
        add_value(&app, "--dsn-command", "TEXT", read_command, "A command that prints it, for passwords that expire")
            ->excludes(dsn);
        app.require_subcommand(1);
        app.fallthrough();
        lay_out(*app.get_formatter());
        add_run();
        add_list();
        add_history();
        add_check();
        add_acquisition(add("acquire", "Acquire a lock and print its token; 1: refused", acquire));
        add_extend();
        add_release();
        add_pause();
        add_name(add("resume", "End a pause; 1: it was not paused", resume));
        add_name(add("forget", "Delete the row of a job that no longer exists; 1: not free, or no such row", forget));
        add("doctor", "Report what is wrong, or may go wrong; 1: something is wrong", doctor);
        add_metrics();
        add("version", "Print the versions of the client and the server, and the server's edition", version);
    }

    CLI::App app;

private:
    static std::string footer(const std::string &first)
    {
        return first + "\nTIME is a whole number with a unit: ms, s, m, h, d.\n"
                       "The database comes from --dsn, or the PG* variables.\n"
                       "For more, see shedlock COMMAND --help; for everything, man shedlock.";
    }

    CLI::App *add(const char *name, const char *help, int (*action)(const request &))
    {
        auto *const command = app.add_subcommand(name, help);
        command->callback([this, action] { asked_.action = action; });
        return command;
    }

    void add_run()
    {
        auto *const command = add("run", "Run a command under a lock, or skip it", run);
        add_acquisition(command);
        add_duration(command, "--wait-server", asked_.wait_server,
                     "How long to wait for a server that cannot be reached (default: same as --wait)");
        command->preparse_callback([this](std::size_t) { asked_.how.keep_alive = true; });
        command->add_flag_callback(
            "--no-keep-alive", [this] { asked_.how.keep_alive = false; },
            "Do not extend the lease while the command runs");
        command->add_flag("--ends-with-session", asked_.ends_with_session,
                          "Free the lock, and stop the command, as soon as its connection is lost");
        add_number(command, "-E", asked_.status_if_refused, "Exit status when skipped (default 0)");
        command->add_flag("-v,--verbose", asked_.verbose, "When skipped, say why on standard error");
        command->formatter(std::make_shared<usage_of_run>());
        command->footer(footer(
            "Exits with the command's exit status; 128+n if signal n killed it. 123, only with --retry: done,\n"
            "but the server did not confirm it, so it may run again; 124: the lease was lost, the\n"
            "command stopped; 125: shedlock failed; 126, 127: the command cannot be run, not found.\n"
            "The command gets SHEDLOCK_NAME, SHEDLOCK_TOKEN, SHEDLOCK_UNTIL, SHEDLOCK_ANCESTORS, and SHEDLOCK_TICK\n"
            "if there is one."));
    }

    void add_list()
    {
        auto *const command = add("list", "Show the locks: state, holder, time left, last run", list);
        add_names(command, "Only these; 1: one does not exist");
        command->add_flag("--watch", asked_.watch, "Repeat every second");
        command->add_flag("--json", asked_.json, "As JSON");
    }

    void add_check()
    {
        auto *const command = add("check", "Say whether jobs were done in time, as a monitoring plugin", check);
        command->preparse_callback(
            [this](std::size_t) { asked_.status_of_failure = static_cast<int>(health::unknown); });
        add_names(command, "The locks; the worst one decides")->required();
        auto *const limit = command->add_option_group("limits", "The limits");
        add_duration(limit, "--max-age", asked_.check_limits.max_age, "Critical: not done for longer than that");
        add_duration(limit, "--max-held", asked_.check_limits.max_held, "Critical: held for longer than that");
        add_schedule(command, limit);
        limit->require_option(1, 0);
        command->footer(
            footer("Status 0: OK; 1: WARNING, the last run failed or ran out, the job is paused, or the run\n"
                   "   that should be done is still under way;\n"
                   "2: CRITICAL, not done in time or never, too many ticks missed, held too long, no such lock;\n"
                   "3: UNKNOWN, wrong options, no server, no privilege, no history, a Java client ran last,\n"
                   "   or an instant is in the future."));
    }

    // --every and --cron.
    struct tick_options {
        CLI::Option *every, *cron;
        [[nodiscard]] bool are_given() const
        {
            if (*every && *cron)
                throw CLI::ExcludesError{"--every", "--cron"};
            return *every || *cron;
        }
    };

    static tick_options add_ticks(CLI::App *to, schedule &runs, const std::string &help)
    {
        const auto read_every = [&runs](const std::string &text) {
            if (const auto months = to_months(text)) {
                runs.ticks = *months;
                return;
            }
            const auto every = to_duration("--every", text, of_periods);
            runs.ticks = internal::interval_literal(every);
            runs.looks_ahead = std::clamp(every / 2, microseconds{}, runs.looks_ahead);
        };
        return {add_value(to, "--every", "TIME", read_every, help),
                add_expression(to, "--cron", runs.ticks, "The same for a crontab expression, e.g. '30 2 * * 1-5'")};
    }

    void add_schedule(CLI::App *check, CLI::App *limit)
    {
        auto &limits = asked_.check_limits;
        const auto ticks =
            add_ticks(limit, limits.runs, "Critical: the run of the latest such period is not done in time");
        std::vector<CLI::Option *> parts{
            add_duration(check, "--grace", limits.runs.grace,
                         "Required with --every and --cron: how long a run has after its tick until it must be done"),
            add_text(check, "--zone", limits.runs.zone,
                     "The time zone of the schedule, e.g. Europe/Berlin (default UTC)"),
            add_number(check, "--max-missed", limits.max_missed,
                       "Critical: by the history, more ticks than that were missed"),
            add_since(check, limits.runs,
                      "Ignore earlier ticks: an instant, or a time back from now (for --max-missed: default 7d)")};
        check->parse_complete_callback([=] {
            for (const auto *const part : parts)
                if (*part && !ticks.are_given())
                    throw CLI::RequiresError{part->get_name(), "--every or --cron"};
            if (ticks.are_given() && !*parts.front())
                throw CLI::RequiresError{*ticks.every ? "--every" : "--cron", "--grace"};
        });
    }

    void add_history()
    {
        auto *const command = add("history", "Show what became of the runs of jobs, and of their ticks", history);
        add_names(command, "The locks; 1: one has neither a row nor a run")->required();
        const auto ticks = add_ticks(command, asked_.runs, "A line for each such period, also if nobody ran it");
        add_text(command, "--zone", asked_.runs.zone,
                 "The time zone of the schedule and of the times shown, e.g. Europe/Berlin (default UTC)");
        add_since(command, asked_.runs,
                  "Leave out what was earlier: an instant, or a time back from now (default 30d)");
        command->add_flag("--json", asked_.json, "As JSON, with all runs of a tick; times in UTC");
        command->parse_complete_callback([ticks] { static_cast<void>(ticks.are_given()); });
        command->footer(footer("With a schedule there is a line for each tick, without one a line for each run.\n"
                               "An administrator begins the history: SELECT shedlock_keep_history()."));
    }

    void add_metrics()
    {
        auto *const command =
            add("metrics", "Print states, and counters if the server has them, for Prometheus", metrics);
        add_number(command, "--max-names", asked_.max_names, "How many names at most (default 10000)");
    }

    void add_extend()
    {
        auto *const command = add("extend", "Extend a lease to --at-most from now; 1: lost", extend);
        add_lease(command, asked_.at_least);
        add_token(command)->required();
    }

    void add_release()
    {
        auto *const command = add("release", "Release a lock; 1: it was lost", release);
        add_names(command)->required();
        auto *const token_or_force = command->add_option_group("what", "What to release");
        auto *const token = add_token(token_or_force);
        token_or_force->add_flag("--force", asked_.force, "Any acquisition, even a pause; takes one name");
        token_or_force->require_option(1);
        command->add_flag("--failed", asked_.failed, "Its work is not done: with --retry the same tick is due again")
            ->needs(token);
        add_text(command, "--detail", asked_.detail, "Why it failed, for the history")->needs(token);
    }

    void add_pause()
    {
        auto *const command =
            add("pause", "Keep a job from running until it is resumed; 1: not free, or its row is locked", pause);
        add_name(command);
        add_text(command, "--reason", asked_.reason, "The reason, to be shown in lists");
        add_duration(command, "--wait", asked_.wait, "How long to wait while the lock is held");
    }

    CLI::Option *add_names(CLI::App *to, const char *help = "The lock, or several: all or none, one token")
    {
        const auto read = [this](const CLI::results_t &words) {
            std::transform(words.begin(), words.end(), std::back_inserter(asked_.names), undisguised);
            return true;
        };
        return to->add_option("NAME", CLI::callback_t{read}, help)->type_name("")->expected(1, -1)->allow_extra_args();
    }

    void add_name(CLI::App *to) { add_names(to, "The lock")->required()->expected(1)->allow_extra_args(false); }

    template <typename Duration> void add_lease(CLI::App *to, Duration &at_least)
    {
        add_names(to)->required();
        add_duration(to, "--at-most", asked_.how.at_most, "How long the lease lasts if it is not released")->required();
        add_duration(to, "--at-least", at_least, "How long the lock is kept, even if released earlier");
    }

    void add_acquisition(CLI::App *to)
    {
        add_lease(to, asked_.how.at_least);
        add_duration(to, "--wait", asked_.wait, "How long to wait, instead of skipping at once");
        add_period(to, "--every", asked_.how.every, asked_.months,
                   "Once per such period in the whole fleet, e.g. 1h; also in weeks (1w) and months (1mon)");
        add_expression(to, "--cron", asked_.how.cron,
                       "Instead of --every: once per instant of this crontab expression, e.g. \"30 2 * * 1-5\"");
        add_text(to, "--zone", asked_.how.zone, "The time zone of --every or --cron, e.g. Europe/Berlin (default UTC)");
        add_instant(to, "--tick", asked_.how.tick,
                    "Instead of --every: the instant at which this run is due, e.g. 2026-11-22T10:00:00Z");
        to->add_flag("--retry", asked_.how.retry, "Run again for the same period or tick until a run is done");
        add_duration(to, "--start-within", asked_.how.start_within, "How long after its tick a run may begin");
        add_text(to, "--holder", asked_.how.holder, "The holder's name in lists (default user@host:pid)");
    }

    CLI::Option *add_token(CLI::App *to)
    {
        return add_number(to, "--token", asked_.token, "The token of the acquisition");
    }

    request &asked_;
};

// CLI11 must not read the command of run: it would take "[a,b]" for a list, and other words for our own options.
std::vector<std::string> cut_command(std::vector<std::string> &words)
{
    const auto mark = std::find(words.begin(), words.end(), "--");
    if (words.empty() || std::find(words.begin(), mark, "run") == mark || mark == words.end())
        return {};
    std::vector<std::string> command{mark + 1, words.end()};
    words.erase(mark, words.end());
    return command;
}

// What CLI11 reports as missing is often only misspelt.
std::string complaint(const CLI::App &app, const CLI::ParseError &failure)
{
    const auto commands = app.get_subcommands();
    const auto see = "; see shedlock " + (commands.empty() ? "" : commands.front()->get_name() + ' ') + "--help";
    for (const auto &left : app.remaining(true)) {
        const auto word = undisguised(left);
        if (word.starts_with("-") && word != "--")
            return "there is no option " + word + see;
        if (word != "--")
            return '"' + word + (commands.empty() ? "\" is not a command" : "\" is one word too many") + see;
    }
    return failure.what() + see;
}

} // namespace

request read_command_line(std::vector<std::string> words)
{
    request asked;
    menu menu{asked};
    CLI::App &app = menu.app;
    asked.command = cut_command(words);
    std::transform(words.begin(), words.end(), words.begin(), disguised);
    std::reverse(words.begin(), words.end()); // CLI11 expects them in reverse order
    try {
        app.parse(words);
    } catch (const CLI::Success &help_or_version) {
        std::ostringstream text;
        app.exit(help_or_version, text);
        asked.action = print_answer;
        asked.answer = text.str();
        return asked;
    } catch (const CLI::ParseError &failure) {
        if (!app.got_subcommand("check"))
            throw usage_error{complaint(app, failure)};
        asked.action = print_answer;
        asked.answer = unchecked(complaint(app, failure)) + '\n';
        asked.status_of_answer = static_cast<int>(health::unknown);
        return asked;
    }
    if (app.got_subcommand("run") && asked.command.empty())
        throw usage_error{"no command to run; usage: shedlock run NAME... --at-most TIME -- COMMAND ARG..."};
    check_and_fill_in(asked);
    return asked;
}

} // namespace shedlock::tool
