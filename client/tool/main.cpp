// shedlock: the command-line tool. Reads the options; what is to be done stands elsewhere.
#include "core.hpp"
#include "run.hpp"
#include "text.hpp"
#include "views.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <fcntl.h>
#include <iostream>
#include <pwd.h>
#include <sstream>
#include <sys/ioctl.h>
#include <unistd.h>

namespace shedlock::tool {

namespace {

using microseconds = std::chrono::microseconds;

// What the options say.
struct request {
    std::string connection;
    run_request run;
    microseconds at_most{};
    std::optional<microseconds> at_least, every;
    std::int64_t token = 0;
    bool no_keep_alive = false, force = false, watch = false, json = false;
    std::string reason;
};

template <typename Number> bool parse(std::string_view text, Number &number)
{
    auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    return failure == std::errc{} && end == text.data() + text.size();
}

// CLI11 by itself would take 010 for eight.
template <typename Number>
CLI::Option *add_number(CLI::App *to, std::string const &name, Number &value, std::string const &help)
{
    auto const read = [&value, name](std::string const &text) {
        if (!parse(text, value))
            throw CLI::ValidationError{name, "\"" + text + "\" is not a number from " +
                                                 std::to_string(std::numeric_limits<Number>::min()) + " to " +
                                                 std::to_string(std::numeric_limits<Number>::max())};
    };
    return to->add_option_function<std::string>(name, read, help)->type_name("NUMBER");
}

microseconds to_duration(std::string const &name, std::string const &text)
{
    static std::map<std::string_view, std::int64_t> const units{
        {"ms", 1000}, {"s", 1000000}, {"m", 60000000}, {"h", 3600000000}, {"d", 86400000000}};
    auto const digits = std::min(text.find_first_not_of("0123456789"), text.size());
    auto const unit = units.find(std::string_view{text}.substr(digits));
    std::int64_t number = 0, whole = 0;
    if (unit == units.end() || !parse(std::string_view{text}.substr(0, digits), number) ||
        __builtin_mul_overflow(number, unit->second, &whole))
        throw CLI::ValidationError{name, "\"" + text + "\" is not a number with a unit (ms, s, m, h, d), e.g. 10m"};
    return microseconds{whole};
}

template <typename Duration>
CLI::Option *add_duration(CLI::App *to, std::string const &name, Duration &value, std::string const &help)
{
    auto const read = [&value, name](std::string const &text) { value = to_duration(name, text); };
    return to->add_option_function<std::string>(name, read, help)->type_name("TIME");
}

std::string who()
{
    auto const *const user = ::getpwuid(::geteuid());
    char host[256] = "";
    ::gethostname(host, sizeof host - 1);
    return (user ? user->pw_name : std::to_string(::geteuid())) + '@' + host + ':' + std::to_string(::getpid());
}

// The tick is the beginning of the current period, in UTC, by our own clock: hosts that are started at about the same
// time by theirs agree on it.
void complete(request &asked)
{
    auto &how = asked.run.how;
    how.at_most = asked.at_most;
    how.at_least = asked.at_least.value_or(microseconds{});
    if (how.holder.empty())
        how.holder = who();
    if (!asked.every)
        return;
    if (*asked.every < std::chrono::seconds{1})
        throw usage_error{"--every must be at least 1s"};
    auto const now = std::chrono::floor<microseconds>(std::chrono::system_clock::now());
    how.tick = now - now.time_since_epoch() % *asked.every;
}

client connect(request const &asked)
{
    return client{asked.connection, {.on_warning = say}};
}

int acquire(request const &asked)
{
    auto held = connect(asked).acquire(asked.run.name, asked.run.how, asked.run.wait);
    if (!held)
        return 1;
    std::cout << static_cast<std::int64_t>(held->token()) << std::endl;
    if (std::cout) // else nobody knows the token, and the lock is released
        held->detach();
    return 0;
}

int done_or_say(bool done, request const &asked, std::string const &otherwise)
{
    if (!done)
        say("lock \"" + asked.run.name + "\" " + otherwise);
    return done ? 0 : 1;
}

int extend(request const &asked)
try {
    connect(asked).extend(asked.run.name, token{asked.token}, asked.at_most, asked.at_least);
    return 0;
} catch (lock_lost const &failure) {
    say(failure.what());
    return 1;
}

int release(request const &asked)
try {
    auto locks = connect(asked);
    if (asked.force)
        return done_or_say(locks.force_release(asked.run.name), asked, "was not held");
    locks.release(asked.run.name, token{asked.token});
    return 0;
} catch (lock_lost const &failure) {
    say(failure.what());
    return 1;
}

int pause(request const &asked)
{
    auto const reason = asked.reason.empty() ? std::nullopt : std::optional{asked.reason};
    return done_or_say(connect(asked).pause(asked.run.name, reason, asked.run.wait), asked,
                       "was not paused: it is held");
}

int resume(request const &asked)
{
    return done_or_say(connect(asked).resume(asked.run.name), asked, "was not resumed: it is not paused");
}

// For statements of our own, also on a standby.
class viewer {
public:
    explicit viewer(std::string const &connection)
        : session{internal::with_defaults(connection, client_settings{}.timeout, false), client_settings{}.timeout,
                  time_}
    {
    }

private:
    internal::timer time_;

public:
    internal::session session;
};

// As many lines as the terminal has, from its upper left corner.
void show_in_place(std::string const &text)
{
    winsize size{};
    auto rows = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
    std::istringstream lines{text};
    std::cout << "\033[H\033[?7l"; // lines that are too long are cut, not wrapped
    for (std::string line; --rows > 0 && std::getline(lines, line);)
        std::cout << line << "\033[K\n";
    std::cout << "\033[J\033[?7h" << std::flush;
}

std::string listed(viewer &viewer, request const &asked, bool on_terminal)
{
    std::ostringstream out;
    if (asked.json)
        list_as_json(viewer.session, out);
    else
        list_as_table(viewer.session, out, on_terminal);
    return out.str();
}

int list(request const &asked)
{
    bool const on_terminal = ::isatty(STDOUT_FILENO) == 1;
    viewer viewer{asked.connection};
    if (!asked.watch) {
        std::cout << listed(viewer, asked, on_terminal);
        return 0;
    }
    for (;;) {
        std::string now;
        try {
            now = listed(viewer, asked, on_terminal);
        } catch (connection_error const &failure) { // it may come back
            now = "shedlock: " + printable(failure.what()) + '\n';
        }
        if (on_terminal)
            show_in_place(now);
        else
            std::cout << now << std::endl;
        if (!std::cout)
            throw error{"cannot write to standard output"};
        std::this_thread::sleep_for(std::chrono::seconds{1});
    }
}

// The program: options and commands. Chosen is set to what is to be done.
void describe(CLI::App &app, request &asked, std::function<int()> &chosen)
{
    app.description("Lease locks for scheduled jobs: one run at a time across all hosts, the others skip.");
    app.footer("TIME is a number with a unit: ms, s, m, h, d. The database comes from --dsn, or the PG* variables.\n"
               "shedlock COMMAND --help tells more, shedlock(1) everything.");
    app.set_version_flag("--version", "shedlock " SHEDLOCK_VERSION);
    app.add_option("--dsn", asked.connection, "Connection string or URI, as for psql")->type_name("STRING");
    app.require_subcommand(1);
    app.fallthrough();
    app.get_formatter()->column_width(28);

    auto const add = [&](char const *name, char const *help, int (*action)(request const &)) {
        auto *const command = app.add_subcommand(name, help);
        command->callback([&asked, &chosen, action] { chosen = [&asked, action] { return action(asked); }; });
        return command;
    };
    auto const add_name = [&](CLI::App *to) {
        to->add_option("NAME", asked.run.name, "The lock")->required()->type_name("");
    };
    auto const add_lease = [&](CLI::App *to) {
        add_name(to);
        add_duration(to, "--at-most", asked.at_most, "The lease ends then, even if nobody releases")->required();
        add_duration(to, "--at-least", asked.at_least, "Kept that long, even if released earlier");
    };
    auto const add_acquire = [&](CLI::App *to) {
        add_lease(to);
        add_duration(to, "--wait", asked.run.wait, "Try again for that long, instead of skipping at once");
        add_duration(to, "--every", asked.every, "Once per such period (of UTC) in the whole fleet, e.g. 1h");
        to->add_option("--holder", asked.run.how.holder, "Who, for people (default user@host:pid)")->type_name("TEXT");
    };
    auto const add_token = [&](CLI::App *to) { return add_number(to, "--token", asked.token, "Of the acquisition"); };

    auto *const run_command = add("run", "Run a command under a lock, or skip it",
                                  [](request const &what) { return run(what.connection, what.run); });
    add_acquire(run_command);
    run_command->add_flag("--no-keep-alive", asked.no_keep_alive, "Do not extend the lease while the command runs");
    add_number(run_command, "-E", asked.run.status_if_refused, "Exit status when skipped (default 0)");
    run_command->add_flag("-v,--verbose", asked.run.verbose, "Say so when skipped");
    run_command->footer(
        "shedlock run NAME --at-most TIME [OPTIONS] -- COMMAND ARG...\n"
        "Ends with the command's exit status, 128+n if signal n killed it. 124: the lease was lost and the command\n"
        "stopped; 125: shedlock failed; 126, 127: the command cannot be run, is not found.\n"
        "The command has SHEDLOCK_NAME, SHEDLOCK_TOKEN, SHEDLOCK_UNTIL.");

    auto *const list_command = add("list", "Show the locks: state, holder, time left, last run", list);
    list_command->add_flag("--watch", asked.watch, "Again every second");
    list_command->add_flag("--json", asked.json, "As JSON");

    add_acquire(add("acquire", "Print the token, or exit with 1: refused", acquire));

    auto *const extend_command = add("extend", "Let a lease last for --at-most from now; 1: lost", extend);
    add_lease(extend_command);
    add_token(extend_command)->required();

    auto *const release_command = add("release", "Release a lock; 1: it was lost", release);
    add_name(release_command);
    auto *const token_or_force = release_command->add_option_group("whose", "Whose acquisition");
    add_token(token_or_force);
    token_or_force->add_flag("--force", asked.force, "Whoever holds it");
    token_or_force->require_option(1);

    auto *const pause_command =
        add("pause", "Keep a job from running until it is resumed; 1: somebody holds it", pause);
    add_name(pause_command);
    pause_command->add_option("--reason", asked.reason, "Why, for people")->type_name("TEXT");
    add_duration(pause_command, "--wait", asked.run.wait, "Try again for that long while somebody holds it");

    add_name(add("resume", "End a pause; 1: it was not paused", resume));
    add("doctor", "Tell what is wrong, or may become so; 1: something is", [](request const &what) {
        viewer to{what.connection};
        return doctor(to.session, std::cout) ? 1 : 0;
    });
    add("metrics", "Print counters and states for Prometheus", [](request const &what) {
        viewer to{what.connection};
        metrics(to.session, std::cout);
        return 0;
    });
}

// The command of run is not CLI11's to read: it would take "[a,b]" for a list, and words for our own options.
std::vector<std::string> cut_command(std::vector<std::string> &words)
{
    auto const mark = std::find(words.begin(), words.end(), "--");
    if (words.empty() || std::find(words.begin(), mark, "run") == mark || mark == words.end())
        return {};
    std::vector<std::string> command{mark + 1, words.end()};
    words.erase(mark, words.end());
    return command;
}

// If we were started with one of them closed, a connection to the server would get its number, and what is meant for
// standard error would be sent there. Opened the wrong way round, so that use is an error still; the command gets them
// closed as we did.
void occupy_standard_files()
{
    for (int const number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
        if (::fcntl(number, F_GETFD) < 0)
            ::open("/dev/null", (number == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
}

int main(std::vector<std::string> words)
{
    occupy_standard_files();
    request asked;
    std::function<int()> chosen;
    CLI::App app;
    app.name("shedlock");
    describe(app, asked, chosen);
    asked.run.command = cut_command(words);
    try {
        std::reverse(words.begin(), words.end()); // CLI11 wants it so
        app.parse(words);
        if (app.got_subcommand("run") && asked.run.command.empty())
            throw usage_error{"no command to run: shedlock run NAME --at-most TIME -- COMMAND ARG..."};
        asked.run.how.keep_alive = app.got_subcommand("run") && !asked.no_keep_alive;
        complete(asked);
        int const status = chosen();
        if (!(std::cout << std::flush))
            throw error{"cannot write to standard output"};
        return status;
    } catch (CLI::ParseError const &failure) {
        if (app.exit(failure) == 0)
            return 0; // --help, --version
        if (app.got_subcommand("run") && asked.run.command.empty())
            std::cerr << "The command goes after --: shedlock run NAME --at-most TIME -- COMMAND ARG...\n";
        return own_failure;
    } catch (std::exception const &failure) {
        say(failure.what());
        return own_failure;
    }
}

} // namespace

} // namespace shedlock::tool

int main(int count, char **words)
{
    return shedlock::tool::main(std::vector<std::string>{words + 1, words + count});
}
