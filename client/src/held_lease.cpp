#include "held_lease.hpp"

#include <algorithm>

namespace shedlock::internal {

using namespace std::chrono_literals;

namespace {

// Earlier than the server's end of the lease, to allow for clocks that run at different rates and, if at_most is about
// a minute or more, for the five seconds that a command has between SIGTERM and SIGKILL.
clock::time_point trusted_until(clock::time_point sent, clock::duration at_most)
{
    return later(sent, at_most - std::min<clock::duration>(at_most / 10, 6s) - at_most / 1000);
}

// Whether the request that failed has certainly changed nothing on the server.
bool is_without_effect(const std::exception &failure)
{
    return dynamic_cast<const usage_error *>(&failure) || dynamic_cast<const busy *>(&failure);
}

} // namespace

lease::lease(timer &timer, shedlock::names what, const grant &granted, clock::duration at_most)
    : names{std::move(what)}, token{granted.token}, tick{granted.tick},
      deadline_{trusted_until(granted.sent, at_most).time_since_epoch().count()}, at_most_{at_most},
      shortest_in_doubt_{granted.was_extended ? at_most : clock::duration::max()}, extended_{granted.sent}
{
    alarm_.emplace(timer, deadline(), stop_);
}

// An earlier deadline is set before the alarm, so that nobody is asked to stop while held() is still true. Once
// the deadline has passed it is never moved to a later time, because the work has been asked to stop.
void lease::trust(clock::time_point until)
{
    const auto count = until.time_since_epoch().count();
    if (until < deadline()) {
        deadline_ = count;
        if (alarm_)
            alarm_->move_to(until);
    } else if (clock::now() < deadline() && alarm_ && alarm_->move_to(until)) {
        deadline_ = count;
    }
}

void lease::extend(clock::duration at_most, const request &ask)
{
    const bool is_possible = at_most >= 1ms; // the server refuses less
    std::unique_lock mine{extending, std::defer_lock};
    clock::time_point before;
    try {
        const auto sent = ask([&] {
            if (!mine.try_lock()) // keep-alive has it, and may be waiting for the connection that the caller has
                throw busy{names.to_text() + " is being extended already, and PostgreSQL does not answer"};
            before = deadline();
            if (is_possible)
                begin_extend(at_most);
        });
        confirm_extend(at_most, sent);
    } catch (const lock_lost &failure) {
        lose(failure.sqlstate());
        throw;
    } catch (const std::exception &failure) {
        if (mine && is_without_effect(failure))
            forget_extend(before);
        else if (mine && is_possible)
            doubt_extend(at_most);
        throw;
    }
}

void lease::begin_extend(clock::duration at_most)
{
    const std::lock_guard hold{mutex_};
    // Until the answer arrives, either lease may be in effect.
    trust(std::min(deadline(), trusted_until(clock::now(), at_most)));
}

void lease::forget_extend(clock::time_point before)
{
    const std::lock_guard hold{mutex_};
    trust(before);
}

void lease::confirm_extend(clock::duration at_most, clock::time_point sent)
{
    const std::lock_guard hold{mutex_};
    at_most_ = at_most;
    extended_ = sent;
    trust(trusted_until(sent, certain()));
}

void lease::doubt_extend(clock::duration at_most) noexcept
{
    const std::lock_guard hold{mutex_};
    shortest_in_doubt_ = std::min(shortest_in_doubt_, at_most);
}

bool lease::lose(std::string_view state) noexcept
{
    const std::lock_guard hold{mutex_};
    if (state == sqlstate::released_as_done)
        was_done_ = true;
    const bool is_loss = !was_done_ && !is_completing_;
    const bool was_over = is_over_.exchange(true);
    if (!is_loss)
        alarm_.reset();
    trust(long_past);
    return is_loss && !was_over;
}

bool lease::note_deadline_passed() noexcept
{
    const std::lock_guard hold{mutex_};
    return !is_over_ && clock::now() >= deadline() && !was_lost_at_deadline_.exchange(true);
}

lease::plan lease::next() const
{
    const std::lock_guard hold{mutex_};
    return {at_most_, certain(), later(extended_, certain() / 3)};
}

bool lease::end() noexcept
{
    const std::lock_guard hold{mutex_};
    has_ended_ = true;
    alarm_.reset();
    return !is_over_.exchange(true);
}

} // namespace shedlock::internal
