#include "run.hpp"

#include "command.hpp"
#include "text.hpp"

#include <algorithm>
#include <future>
#include <thread>
#include <time.h>

namespace shedlock::tool {

namespace {

// By our own clock, which the command can read, too: until then the lease is certain even if it cannot be extended any
// more.
std::string until(lock const &held)
{
    auto const now = clock::now();
    auto const left = std::max(held.deadline(), now) - now;
    auto const here = std::chrono::floor<clock::duration>(std::chrono::system_clock::now()); // its own would overflow
    auto const at = std::time_t{std::chrono::floor<std::chrono::seconds>(here + left).time_since_epoch().count()};
    tm parts{};
    ::gmtime_r(&at, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return text;
}

// A line for each: blanks and commas may be part of a name.
std::string joined(std::vector<std::string> const &names)
{
    std::string lines;
    for (auto const &name : names)
        lines += (lines.empty() ? "" : "\n") + name;
    return lines;
}

} // namespace

std::optional<lock> acquire(client &locks, run_request const &request, events &events, int &interrupted_by,
                            refusal *why)
{
    std::promise<std::optional<lock>> promise;
    auto acquired = promise.get_future();
    std::jthread waiting{[&](std::stop_token const &stop) {
        try {
            promise.set_value(locks.acquire(request.names, request.how, request.wait, stop, why));
        } catch (...) {
            promise.set_exception(std::current_exception());
        }
        events.call();
    }};
    while (acquired.wait_for(std::chrono::seconds{0}) != std::future_status::ready) {
        auto const number = events.wait();
        if (number == SIGTSTP) {
            ::raise(SIGSTOP);
        } else if (number != 0 && number != SIGCHLD) {
            interrupted_by = number;
            waiting.request_stop();
        }
    }
    if (interrupted_by == 0)
        return acquired.get();
    try {
        if (auto late = acquired.get())
            late->release(outcome::failed);
    } catch (std::exception const &) { // does not matter any more
    }
    return std::nullopt;
}

int run(std::string const &connection, run_request const &request)
{
    if (int const status = look_for(request.command.front()); status != 0)
        return status; // before anything is asked of the server: the tick is left to hosts that can run it
    auto const who = names{request.names}.to_text();
    events events;
    client locks{connection, {.on_event = say_event}};
    int interrupted_by = 0;
    refusal why;
    auto held = acquire(locks, request, events, interrupted_by, request.verbose ? &why : nullptr);
    if (interrupted_by != 0)
        return 128 + interrupted_by;
    if (!held) {
        if (request.verbose)
            say("skipped: " + why.to_text());
        return request.status_if_refused;
    }

    command running{events,
                    request.command,
                    {"SHEDLOCK_NAME=" + joined(request.names),
                     "SHEDLOCK_TOKEN=" + std::to_string(static_cast<std::int64_t>(held->token())),
                     "SHEDLOCK_UNTIL=" + until(*held)}};
    int const status = running.wait(held->stop_token());
    bool const stopped = held->stop_token().stop_requested();
    if (stopped)
        say(who + " was lost, or its lease about to end: the command was stopped");
    bool const was_held = held->held();
    try {
        held->release(status == 0 && !stopped ? outcome::done : outcome::failed);
    } catch (lock_lost const &failure) {
        say(failure.what());
        if (was_held) // the server may have forgotten that it was completed
            say("its lease had not ended by the clock of this host: either it was released by force, or the command "
                "itself has completed or released it");
        return lease_was_lost;
    } catch (error const &failure) {
        say(std::string{"not released, and ends by itself: "} + failure.what());
    }
    return stopped ? lease_was_lost : status;
}

} // namespace shedlock::tool
