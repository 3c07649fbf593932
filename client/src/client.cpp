#include "cancellation.hpp"
#include "core.hpp"
#include "literal.hpp"

namespace shedlock {

using namespace internal;

namespace {

clock::time_point end_of(std::chrono::microseconds wait)
{
    if (wait < wait.zero())
        throw usage_error{"wait must not be negative", "22023"};
    return later(clock::now(), wait);
}

} // namespace

client::client(const std::string &connection, client_settings settings)
    : core_{core::make(source{connection}, settings)}
{
}

std::shared_ptr<core> client::make_core(std::function<std::string()> source, const client_settings &settings)
{
    return core::make(std::move(source), settings);
}

client::client(client &&) noexcept = default;
client &client::operator=(client &&) noexcept = default;
client::~client() = default;

core &client::require() const
{
    if (!core_)
        throw usage_error{"this client was moved from"};
    return core_->require();
}

std::optional<lock> client::try_acquire(const names &what, const options &how, refusal *why)
{
    return acquire(what, how, {}, {}, why);
}

std::optional<lock> client::acquire(const names &what, const options &how, std::chrono::microseconds wait,
                                    std::stop_token stop, refusal *why)
{
    return acquire(what, how, limits{end_of(wait), std::move(stop)}, why);
}

std::optional<lock> client::acquire(const names &what, const options &how, const limits &limits, refusal *why)
{
    const uncancelled here;
    auto &core = require();
    const auto began = clock::now();
    const auto granted = internal::acquire(core.shared, core.waits, core.away, core.after, what, how, limits, why);
    if (!granted) {
        core.report(activity{activity::kind::refused, what, {}, how.tick, {}, clock::now() - began});
        return std::nullopt;
    }
    lock acquired{core_, core.make_lease(what, *granted, how.at_most)};
    core.report(activity_of(activity::kind::acquired, *acquired.lease_, began));
    if (!acquired.held()) // the reply came late, or this machine was suspended
        throw lock_lost{what.to_text() +
                            " was acquired, but the reply came so late that its lease was over, or about to end",
                        sqlstate::lost};
    if (how.keep_alive)
        core.keeping.keep(acquired.lease_);
    return acquired;
}

void client::finish(lock &mine, outcome how)
{
    const uncancelled here;
    if (!is_live(mine.lease_))
        return; // the work has released or detached it
    // Throws in a child that was forked in the work, and must not release its parent's lock.
    const auto &lease = mine.require();
    // In this order, because keep-alive may learn of the loss meanwhile.
    const bool is_known_to_be_lost = lease.is_over() && !lease.was_done() && !lease.is_completing();
    const bool to_the_end = !is_known_to_be_lost && mine.held();
    bool was_done = false;
    try {
        if (is_known_to_be_lost)
            mine.end();
        else
            was_done = mine.give_back(to_the_end && !lease.is_completing() ? how : outcome::failed);
    } catch (const connection_error &failure) {
        if (to_the_end) // otherwise it is reported as lost
            mine.report_unreleased(failure);
    }
    if (!to_the_end && !was_done)
        throw lock_lost{lease.names.to_text() + " was lost, or its lease was about to end, before the work was over",
                        sqlstate::lost};
}

void client::extend(const names &what, token number, std::chrono::microseconds at_most,
                    std::optional<std::chrono::microseconds> at_least)
{
    const uncancelled here;
    auto &core = require();
    const auto began = clock::now();
    const auto until = core.shared.time_limit();
    persist(until, what.to_text() + " was extended",
            [&] { return internal::extend(core.shared, what, number, at_most, at_least, until); });
    core.report(activity{activity::kind::extended, what, number, {}, {}, clock::now() - began});
}

void client::release(const names &what, token number, outcome how, std::string_view detail)
{
    const uncancelled here;
    auto &core = require();
    const auto began = clock::now();
    const auto limit = core.shared.time_limit();
    const bool was_done = core.release(what, number, how, limit, limit, detail);
    core.report(
        activity{activity::kind::released, what, number, {}, was_done ? outcome::done : how, clock::now() - began});
}

bool client::force_release(const std::string &name)
{
    const uncancelled here;
    return require().change("shedlock_force_release($1::pg_catalog.text)", {names_literal(name)},
                            names{name}.to_text() + " was released by force");
}

bool client::pause(const std::string &name, const std::optional<std::string> &reason, std::chrono::microseconds wait)
{
    const uncancelled here;
    auto &core = require();
    const auto until = end_of(wait);
    const fields arguments{names_literal(name), reason ? std::optional{text_literal("reason", *reason)} : std::nullopt};
    const names what{name};
    waiting::caller caller{core.waits, what};
    backoff pauses;
    for (;;) {
        try {
            const bool is_paused =
                core.change("shedlock_pause($1::pg_catalog.text, $2::pg_catalog.text, '0'::pg_catalog.interval)",
                            arguments, what.to_text() + " was paused");
            core.away.end(what);
            pauses.reset();
            if (is_paused || clock::now() >= until)
                return is_paused;
            caller.wait(until);
        } catch (const in_doubt &) { // a second request would be refused because of the pause itself
            throw;
        } catch (const connection_error &failure) {
            if (clock::now() >= until)
                throw;
            core.away.begin(what, failure);
            pauses.rest(until, {});
        }
    }
}

bool client::resume(const std::string &name)
{
    const uncancelled here;
    return require().change("shedlock_resume($1::pg_catalog.text)", {names_literal(name)},
                            names{name}.to_text() + " was resumed");
}

edition client::edition()
{
    const uncancelled here;
    return require().shared.edition();
}

} // namespace shedlock
