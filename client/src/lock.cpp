#include "cancellation.hpp"
#include "core.hpp"

namespace shedlock {

using namespace internal;

lock::lock(std::shared_ptr<core> core, std::shared_ptr<lease> lease) noexcept
    : core_{std::move(core)}, lease_{std::move(lease)}
{
}

lock::lock(lock &&) noexcept = default;

lock &lock::operator=(lock &&other) noexcept
{
    if (this != &other) {
        release_quietly(true);
        lease_ = std::move(other.lease_);
        core_ = std::move(other.core_);
    }
    return *this;
}

lock::~lock()
{
    release_quietly(true);
}

lease &lock::require() const
{
    if (!is_live(lease_))
        throw usage_error{"this lock was released, completed, detached or moved from"};
    core_->require();
    return *lease_;
}

bool lock::held() const noexcept
{
    return clock::now() < deadline();
}

clock::time_point lock::deadline() const noexcept
{
    return is_live(lease_) && core_->is_ours() ? lease_->deadline() : long_past;
}

std::stop_token lock::stop_token() const noexcept
{
    return is_live(lease_) ? lease_->stop_token() : std::stop_token{};
}

token lock::token() const
{
    return require().token;
}

const names &lock::names() const
{
    return require().names;
}

std::optional<instant> lock::tick() const
{
    return require().tick;
}

void lock::extend(std::chrono::microseconds at_most, std::optional<std::chrono::microseconds> at_least)
{
    const uncancelled here;
    auto &mine = require();
    const auto began = clock::now();
    const auto until = core_->shared.time_limit();
    // The lease learns of each try, because one that got no reply may still be carried out.
    persist(until, mine.names.to_text() + " was extended", [&] {
        mine.extend(at_most, [&](const auto &before) {
            return internal::extend(core_->shared, mine.names, mine.token, at_most, at_least, until, before);
        });
    });
    core_->keeping.look_again();
    core_->report(activity_of(activity::kind::extended, mine, began));
}

void lock::release(outcome how, std::string_view detail)
{
    const uncancelled here;
    if (!is_live(lease_) && !(lease_ && lease_->is_unsettled))
        return;
    core_->require();
    give_back(how, detail);
}

// Returns true if it was already released as done.
bool lock::give_back(outcome how, std::string_view detail)
{
    end();
    const auto began = clock::now();
    const auto limit = core_->shared.time_limit();
    bool was_done = lease_->was_done();
    try {
        lease_->is_unsettled = false;
        if (!was_done)
            was_done = core_->release(lease_->names, lease_->token, how, limit, limit, detail);
    } catch (const connection_error &) {
        lease_->is_unsettled = true;
        throw;
    }
    core_->report(activity_of(activity::kind::released, *lease_, began, was_done ? outcome::done : how));
    return was_done;
}

// The lease stays where it is: other threads may be asking held(). Returns false if it was over already.
bool lock::end() noexcept
{
    const bool was_live = lease_->end();
    core_->keeping.look_again();
    return was_live;
}

// As failed: a cancelled thread, a destroyed coroutine or an error that was caught elsewhere looks like a return. Does
// not try again if the server cannot be reached, and waits for an answer only until the brief limit.
void lock::release_quietly(bool may_be_forgotten) noexcept
{
    const uncancelled here;
    if (!is_live(lease_) || !core_->is_ours())
        return;
    const bool unwinding = std::uncaught_exceptions() > lease_->exceptions;
    const bool forgotten = may_be_forgotten && !unwinding && held() && !lease_->is_completing();
    if (!end()) // it is known to be lost, or done
        return;
    const auto began = clock::now();
    try {
        const bool was_done = core_->release(lease_->names, lease_->token, outcome::failed, began,
                                             core_->shared.brief_limit(), lease_->detail);
        core_->report(
            activity_of(activity::kind::released, *lease_, began, was_done ? outcome::done : outcome::failed));
        if (forgotten && !was_done)
            core_->report(event::kind::not_reported, lease_->names,
                          [&] { return details::not_reported(lease_->names, lease_->tick.has_value()); });
    } catch (const lock_lost &failure) {
        if (!lease_->was_lost_at_deadline() && !lease_->is_completing())
            core_->report(event::kind::lost, lease_->names, [&] { return failure.what(); });
    } catch (const std::exception &failure) {
        report_unreleased(failure);
    }
}

// Releases as failed, for this exception if it is known.
void lock::fail(const std::exception *why) noexcept
{
    try {
        if (why && is_live(lease_))
            lease_->detail = details::first_line(why->what());
    } catch (const std::bad_alloc &) { // it fails without a reason
    }
    release_quietly(!std::current_exception()); // there is none if the thread is cancelled
}

void lock::report_unreleased(const std::exception &failure) const noexcept
{
    if (lease_->was_lost_at_deadline() && !lease_->is_completing()) // that was reported
        return;
    core_->report(event::kind::not_released, lease_->names, [&] {
        return dynamic_cast<const in_doubt *>(&failure)
                   ? std::string{failure.what()} + "; if it is still held, its lease ends by itself"
                   : lease_->names.to_text() + " was not released, and its lease ends by itself: " + failure.what();
    });
}

std::string lock::guard_statement() const
{
    const auto &mine = require();
    return details::sql::guard(mine.names, mine.token, core_->shared.in_schema("@extschema@."));
}

std::string lock::complete_statement()
{
    auto &mine = require();
    auto statement = details::sql::complete(mine.names, mine.token, core_->shared.in_schema("@extschema@."));
    mine.begin_completion();
    return statement;
}

void lock::completed() noexcept
{
    const uncancelled here;
    if (!is_live(lease_) || !core_->is_ours())
        return;
    end();
    core_->report(activity_of(activity::kind::completed, *lease_, clock::now()));
}

token lock::detach()
{
    const uncancelled here;
    auto &mine = require();
    end();
    // If keep-alive is extending it just now, that could shorten a lease that the next owner has made longer.
    const std::unique_lock settled{mine.extending, core_->shared.time_limit()};
    return mine.token;
}

} // namespace shedlock
