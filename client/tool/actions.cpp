#include "actions.hpp"

#include "dsn_command.hpp"
#include "history_view.hpp"
#include "run.hpp"
#include "text.hpp"
#include "tool_access.hpp"
#include "views.hpp"

#include <iostream>
#include <sstream>
#include <sys/ioctl.h>
#include <thread>
#include <unistd.h>

namespace shedlock::tool {

namespace {

// Where the connection string comes from, if a command prints it.
auto dsn_from(const std::string &command)
{
    return [command] { return ask_for_dsn(command, client_settings{}.timeout); };
}

// In any case the tool ends only when the attempt to connect has ended. So its first connection is worth waiting for.
client connect(const request &asked)
{
    auto made = asked.dsn_command.empty() ? client{asked.connection} : client{dsn_from(asked.dsn_command)};
    internal::tool_access::connect_patiently(made);
    return made;
}

int done_or_say(bool done, const request &asked, const std::string &otherwise)
{
    if (!done)
        say("lock \"" + asked.names.front() + "\" " + otherwise);
    return done ? 0 : 1;
}

// For statements of our own.
internal::session asker(const request &asked, bool to_write)
{
    return {asked.dsn_command.empty() ? internal::source{asked.connection}
                                      : internal::source{dsn_from(asked.dsn_command)},
            client_settings{}.timeout, to_write, true};
}

// Works on a standby, too.
internal::session viewer(const request &asked)
{
    return asker(asked, false);
}

// Shows as many lines as fit on the terminal, from its upper left corner.
void show_in_place(const std::string &text)
{
    winsize size{};
    auto rows = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 ? size.ws_row : 24;
    std::istringstream lines{text};
    std::cout << "\033[H\033[?7l"; // lines that are too long are cut, not wrapped
    for (std::string line; --rows > 0 && std::getline(lines, line);)
        std::cout << line << "\033[K\n";
    std::cout << "\033[J\033[?7h" << std::flush;
}

std::vector<std::string> show(internal::session &session, const request &asked, std::ostream &out, bool on_terminal)
{
    if (asked.json)
        return list_as_json(session, asked.names, out);
    return list_as_table(session, asked.names, out, on_terminal);
}

int say_missing(const std::vector<std::string> &names)
{
    for (const auto &name : names)
        say("there is no lock \"" + name + '"');
    return names.empty() ? 0 : 1;
}

} // namespace

int run(const request &asked)
{
    return run([&asked] { return connect(asked); }, asked);
}

int list(const request &asked)
{
    const bool on_terminal = ::isatty(STDOUT_FILENO) == 1;
    auto session = viewer(asked);
    if (!asked.watch)
        return say_missing(show(session, asked, std::cout, on_terminal));
    for (;;) {
        std::ostringstream now;
        try {
            show(session, asked, now, on_terminal);
        } catch (const connection_error &failure) { // the server may come back
            if (asked.json)
                say(failure.what());
            else
                now << "shedlock: " << printable(failure.what()) << '\n';
        }
        if (on_terminal)
            show_in_place(now.str());
        else
            std::cout << now.str() << std::endl;
        if (!std::cout)
            throw error{"cannot write to standard output"};
        std::this_thread::sleep_for(std::chrono::seconds{1});
    }
}

int history(const request &asked)
{
    auto session = viewer(asked);
    auto runs = asked.runs;
    if (!runs.since && !runs.since_ago)
        runs.since_ago = std::chrono::hours{24 * 30};
    if (asked.json)
        return say_missing(history_as_json(session, asked.names, runs, std::cout));
    return say_missing(history_as_table(session, asked.names, runs, std::cout, ::isatty(STDOUT_FILENO) == 1));
}

int check(const request &asked)
try {
    auto session = viewer(asked);
    const auto found = check(session, asked.names, asked.check_limits);
    std::cout << found.line << '\n';
    return static_cast<int>(found.worst);
} catch (const std::exception &failure) {
    std::cout << unchecked(failure.what()) << '\n';
    return static_cast<int>(health::unknown);
}

int acquire(const request &asked)
{
    events events;
    auto locks = connect(asked);
    int interrupted_by = 0;
    refusal why;
    auto held = acquire(locks, asked, events, interrupted_by, &why);
    if (interrupted_by != 0)
        return events.end_by(interrupted_by, ::getpid());
    if (!held) {
        say(why.to_text());
        return 1;
    }
    std::cout << static_cast<std::int64_t>(held->token()) << std::endl;
    if (!std::cout)
        throw error{"cannot write to standard output"}; // no one got the token: the destructor releases, as failed
    held->detach();
    return 0;
}

int extend(const request &asked)
try {
    connect(asked).extend(asked.names, token{asked.token}, asked.how.at_most, asked.at_least);
    return 0;
} catch (const lock_lost &failure) {
    say(failure.what());
    return 1;
}

int release(const request &asked)
try {
    auto locks = connect(asked);
    if (asked.force)
        return done_or_say(locks.force_release(asked.names.front()), asked, "was free already");
    locks.release(asked.names, token{asked.token}, asked.failed ? outcome::failed : outcome::done, asked.detail);
    return 0;
} catch (const lock_lost &failure) {
    say(failure.what());
    return 1;
}

int pause(const request &asked)
{
    const auto reason = asked.reason.empty() ? std::nullopt : std::optional{asked.reason};
    return done_or_say(connect(asked).pause(asked.names.front(), reason, asked.wait), asked,
                       "was not paused: it is held, kept, or already paused, or another transaction has its row");
}

int resume(const request &asked)
{
    return done_or_say(connect(asked).resume(asked.names.front()), asked, "was not resumed: it is not paused");
}

int forget(const request &asked)
try {
    auto session = asker(asked, true);
    const auto name = asked.names.front();
    const auto answer = session.ask("SELECT @extschema@.shedlock_forget($1::pg_catalog.text)", {name});
    for (const auto &warning : answer.notices)
        say(warning.text);
    return done_or_say(answer.rows.at(0)[0] == "t", asked,
                       "was not forgotten: there is no such row, it is not free, a transaction in progress has it, "
                       "or its last acquisition or tick is in the future");
} catch (const internal::reply_lost &failure) {
    throw in_doubt{"it is not known whether " + shedlock::names{asked.names.front()}.to_text() + " was forgotten. " +
                   failure.what()};
}

int doctor(const request &asked)
{
    auto session = viewer(asked);
    return doctor(session, std::cout) ? 1 : 0;
}

int metrics(const request &asked)
{
    auto session = viewer(asked);
    metrics(session, asked.max_names, std::cout);
    return 0;
}

int print_answer(const request &asked)
{
    std::cout << asked.answer;
    return asked.status_of_answer;
}

int version(const request &asked)
{
    const auto found = viewer(asked).edition();
    std::cout << "client " SHEDLOCK_VERSION "\nserver " << found.version << " ("
              << (found.name == "extension" ? found.name : found.name + " edition") << ")\n";
    return 0;
}

} // namespace shedlock::tool
