#include "run.hpp"

#include "command.hpp"
#include "dsn_command.hpp"
#include "instant.hpp"
#include "outage.hpp"
#include "reporter.hpp"
#include "text.hpp"
#include "tool_access.hpp"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace shedlock::tool {

namespace {

// Until when the lease is certain even if it is never extended again, by the clock of this host, which the command can
// read, too.
std::string until(const lock &held)
{
    const auto now = clock::now();
    const auto left = std::max(held.deadline(), now) - now;
    const auto here =
        std::chrono::floor<clock::duration>(std::chrono::system_clock::now()); // nanoseconds would overflow
    return to_text(std::chrono::floor<std::chrono::seconds>(here + left));
}

// One per line, because blanks and commas may be part of a name.
std::string joined(const std::vector<std::string> &names)
{
    std::string lines;
    for (const auto &name : names)
        lines += (lines.empty() ? "" : "\n") + name;
    return lines;
}

// Returns the result of work(stop), or what it threw. Signals that arrive meanwhile, except TSTP and CHLD, request the
// stop; the number of the last one is in interrupted_by.
template <typename Work>
std::future<std::invoke_result_t<Work, const std::stop_token &>> interruptibly(events &events, int &interrupted_by,
                                                                               const Work &work)
{
    std::packaged_task<std::invoke_result_t<Work, const std::stop_token &>(const std::stop_token &)> task{work};
    auto result = task.get_future();
    std::jthread working{[&](const std::stop_token &stop) {
        task(stop);
        events.call();
    }};
    while (result.wait_for(std::chrono::seconds{0}) != std::future_status::ready) {
        const auto number = events.wait();
        if (number == SIGTSTP) {
            events.stop(::getpid());
        } else if (number == SIGCHLD) {
            reap_all(); // orphans, if we are process 1
        } else if (number != 0) {
            interrupted_by = number;
            working.request_stop();
        }
    }
    return result;
}

// The command has succeeded, but that could not be recorded: tries again until the end, or until a signal comes.
// Returns the tool's exit status.
int record_late(client &locks, const request &asked, token id, clock::time_point end, events &events, const error &why)
{
    const auto is_doubtful = [](const error &failure) { return dynamic_cast<const in_doubt *>(&failure) != nullptr; };
    bool may_be_recorded = is_doubtful(why); // a reply was lost
    internal::print_at_once((may_be_recorded
                                 ? "done, but it is not known whether that was recorded; trying until the lease ends: "
                                 : "done, but not recorded yet; trying until the lease ends: ") +
                            std::string{why.what()});
    int interrupted_by = 0;
    const auto record = [&](const std::stop_token &stop) {
        for (internal::backoff pauses; clock::now() < end && !stop.stop_requested(); pauses.rest(end, stop))
            try {
                internal::tool_access::release_once(locks, asked.names, id, outcome::done);
                return true;
            } catch (const lock_lost &) {
                return false;
            } catch (const error &failure) { // another try
                may_be_recorded = may_be_recorded || is_doubtful(failure);
            }
        return false;
    };
    if (interruptibly(events, interrupted_by, record).get())
        return 0;
    say(may_be_recorded ? "done, but it is not known whether that was recorded: if not, the command will run again for "
                          "the same tick"
                        : "done, but not recorded: the same tick is due again, so the command will run again");
    return not_recorded;
}

void say_unreleased(const error &why)
{
    if (dynamic_cast<const in_doubt *>(&why))
        say(std::string{why.what()} + "; if it is still held, its lease ends by itself");
    else
        say(std::string{"the lock was not released, and its lease ends by itself: "} + why.what());
}

// Releases after the command has ended with this status, and this failure if it is not 0. Returns the tool's exit
// status.
int release(client &locks, lock &held, const request &asked, events &events, int status, const std::string &failure)
{
    const bool stopped = held.stop_token().stop_requested();
    if (stopped)
        internal::print_at_once(held.names().to_text() +
                                " was lost, or its lease was about to end: the command was stopped");
    const bool was_held = held.held(), is_done = status == 0 && !stopped;
    const auto end = held.deadline();
    const auto id = held.token();
    try {
        if (stopped) { // the lease ends by itself very soon
            internal::tool_access::abandon(held);
            internal::tool_access::release_once(locks, asked.names, id, outcome::failed,
                                                "stopped because its lease was about to end", std::chrono::seconds{1});
        } else {
            held.release(is_done ? outcome::done : outcome::failed, failure);
        }
    } catch (const lock_lost &lost) {
        if (!stopped) // otherwise it was said
            say(lost.what());
        if (asked.ends_with_session && is_done) {
            say("done, but it is not known whether that was recorded");
            return asked.how.retry ? not_recorded : lease_was_lost;
        }
        if (was_held) // the server may have forgotten that it was completed
            say("its lease had not ended by the clock of this host: either it was released by force, or the command "
                "itself has completed or released it");
        return lease_was_lost;
    } catch (const error &unreleased) {
        if (is_done && asked.how.retry)
            return record_late(locks, asked, id, end, events, unreleased);
        say_unreleased(unreleased);
    }
    return stopped ? lease_was_lost : status;
}

// A command that asks for the lock under which it runs would wait for itself, or skip its work, which would then count
// as done. So its environment has the tokens of all runs that it is part of. Tokens distinguish runs and databases, and
// one that is no longer held shows that the environment is out of date.
constexpr const char *ancestors_variable = "SHEDLOCK_ANCESTORS";

std::string ancestors()
{
    const auto *const given = std::getenv(ancestors_variable);
    return given ? given : "";
}

void require_no_ancestor_holds(client &locks, const request &asked)
{
    std::vector<std::int64_t> tokens;
    std::istringstream all{ancestors()};
    for (std::int64_t one = 0; all >> one;)
        tokens.push_back(one);
    if (tokens.empty())
        return;
    if (const auto name = internal::tool_access::held_with(locks, asked.names, tokens))
        throw usage_error{shedlock::names{*name}.to_text() + " is held by the run that this command is part of"};
}

} // namespace

std::optional<lock> acquire(client &locks, const request &asked, events &events, int &interrupted_by, refusal *why)
{
    auto acquired = interruptibly(events, interrupted_by, [&](const std::stop_token &stop) {
        const auto end = internal::later(clock::now(), asked.wait);
        try {
            require_no_ancestor_holds(locks, asked);
        } catch (const connection_error &) { // the acquire waits for the server
        }
        auto granted = internal::tool_access::acquire(locks, asked.names, asked.how,
                                                      {end, stop, asked.wait_server, asked.ends_with_session}, why);
        if (!granted)
            require_no_ancestor_holds(locks, asked);
        return granted;
    });
    if (interrupted_by == 0)
        return acquired.get();
    try {
        if (auto late = acquired.get())
            late->release(outcome::failed, "signal " + std::to_string(interrupted_by) + " during the wait");
    } catch (const std::exception &) { // does not matter any more
    }
    return std::nullopt;
}

int run(const std::function<client()> &connect, const request &asked)
{
    if (const int status = look_for(asked.command.front()); status != 0)
        return status; // without asking the server: the tick is left to hosts that can run the command
    events events;
    auto locks = connect();
    int interrupted_by = 0;
    refusal why;
    auto held = acquire(locks, asked, events, interrupted_by, asked.verbose ? &why : nullptr);
    if (interrupted_by != 0)
        return events.end_by(interrupted_by, ::getpid());
    if (!held) {
        if (asked.verbose)
            say("skipped: " + why.to_text());
        return asked.status_if_refused;
    }

    std::jthread watching;
    if (asked.ends_with_session)
        watching = std::jthread{
            [&](const std::stop_token &stop) { internal::tool_access::watch_session(locks, *held, stop); }};
    try {
        command running{
            events,
            asked.command,
            {"SHEDLOCK_NAME=" + joined(asked.names),
             "SHEDLOCK_TOKEN=" + std::to_string(static_cast<std::int64_t>(held->token())),
             ancestors_variable + ('=' + ancestors()) + ' ' + std::to_string(static_cast<std::int64_t>(held->token())),
             "SHEDLOCK_UNTIL=" + until(*held),
             held->tick() ? "SHEDLOCK_TICK=" + to_text(*held->tick()) : "SHEDLOCK_TICK"}};
        const int status = running.wait(held->stop_token());
        const int result = release(locks, *held, asked, events, status, running.failure());
        if (const int number = running.killed_on_terminal(); number != 0 && result == 128 + number)
            return events.end_by(number, running.had_terminal() ? 0 : ::getpid());
        return result;
    } catch (const std::exception &failure) { // no process could be started
        internal::tool_access::fail(*held, failure);
        throw;
    }
}

} // namespace shedlock::tool
