#include "lease.hpp"

#include <algorithm>

namespace shedlock::internal {

using namespace std::chrono_literals;

namespace {

// Less than what the server was asked for: for clocks that run at different rates, and, from a minute or so on, for the
// five seconds that a command has between SIGTERM and SIGKILL.
clock::time_point trusted_until(clock::time_point sent, clock::duration at_most)
{
    auto const margin = std::min<clock::duration>(at_most / 10, 6s) + at_most / 1000;
    return sent + std::min<clock::duration>(at_most - margin, std::chrono::years{1000});
}

} // namespace

lease::lease(core &owner, shedlock::names what, grant const &granted, clock::duration at_most)
    : names{std::move(what)}, token{granted.token}, core_{owner},
      deadline_{trusted_until(granted.sent, at_most).time_since_epoch().count()}, at_most_{at_most},
      shortest_in_doubt_{granted.asked_again ? at_most : clock::duration::max()}, extended_{granted.sent}
{
    alarm_.emplace(core_.time, deadline(), stop_);
}

void lease::trust(clock::time_point until)
{
    deadline_ = until.time_since_epoch().count();
    if (alarm_)
        alarm_->move_to(until);
}

void lease::lose() noexcept
{
    deadline_ = clock::time_point::min().time_since_epoch().count();
    stop_.request_stop();
}

void lease::extend(clock::duration at_most, std::function<clock::time_point()> const &ask)
{
    std::lock_guard const one_at_a_time{extending_};
    extend_in_turn(at_most, ask);
}

void lease::extend_in_turn(clock::duration at_most, std::function<clock::time_point()> const &ask)
try {
    {
        // Until the answer is here, either may be true.
        std::lock_guard const hold{mutex_};
        trust(std::min(deadline(), trusted_until(clock::now(), at_most)));
    }
    auto const sent = ask();
    std::lock_guard const hold{mutex_};
    at_most_ = at_most;
    extended_ = sent;
    trust(trusted_until(sent, certain()));
    due_changed_.notify_all();
} catch (lock_lost const &) {
    lose();
    throw;
} catch (usage_error const &) {
    throw;
} catch (...) {
    std::lock_guard const hold{mutex_};
    shortest_in_doubt_ = std::min(shortest_in_doubt_, at_most);
    throw;
}

void lease::keep_alive()
{
    keeper_ = std::async(std::launch::async, [self = shared_from_this(), connection = core_.connection]() mutable {
        self->keep(std::move(connection));
    });
}

void lease::end() noexcept
{
    ended_.request_stop();
    std::unique_lock hold{mutex_};
    alarm_.reset();
    hold.unlock();
    if (keeper_.valid())
        core_.retire(std::move(keeper_));
}

// A third of at_most has passed, or the last try failed. False: there is nothing to keep any more.
bool lease::wait_until_due()
{
    std::unique_lock hold{mutex_};
    while (!ended_.stop_requested() && clock::now() < deadline()) {
        auto const due = extended_ + certain() / 3;
        if (clock::now() >= due)
            return true;
        due_changed_.wait_for(hold, ended_.get_token(), nap(due), [&] { return extended_ + certain() / 3 != due; });
    }
    return false;
}

// Whatever goes wrong on the way, memory that runs out included, is tried again.
void lease::keep(std::string connection)
{
    session own{std::move(connection), core_.settings.timeout, core_.time};
    try {
        own.open(); // now, while there are connections to be had
    } catch (std::exception const &) {
    }
    bool in_trouble = false;
    while (wait_until_due()) {
        try {
            extend_over(own);
            in_trouble = false;
        } catch (lock_lost const &failure) {
            return core_.warn([&] { return failure.what(); });
        } catch (std::exception const &failure) {
            if (ended_.stop_requested())
                return;
            if (!std::exchange(in_trouble, true))
                core_.warn([&] { return names.to_text() + " could not be extended yet: " + failure.what(); });
            auto const rest = std::clamp<clock::duration>((deadline() - clock::now()) / 10, 10ms, 1s);
            sleep_until(clock::now() + rest, ended_.get_token());
        }
    }
    if (!ended_.stop_requested())
        core_.warn([&] { return names.to_text() + " could not be extended in time: the work under it must stop"; });
}

void lease::extend_over(session &own)
{
    // First in turn, then how long: an extend by the application that was under way may have changed it.
    std::lock_guard const one_at_a_time{extending_};
    std::unique_lock hold{mutex_};
    auto const at_most = at_most_;
    // Several tries fit into what is left of the lease.
    auto const patience = std::min(core_.settings.timeout, std::chrono::ceil<std::chrono::milliseconds>(certain() / 6));
    hold.unlock();
    extend_in_turn(at_most, [&] { return internal::extend(own, names, token, at_most, std::nullopt, patience); });
}

} // namespace shedlock::internal
