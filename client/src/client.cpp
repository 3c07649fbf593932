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

client::client(std::string const &connection, client_settings settings)
    : core_{core::make(source{connection}, settings)}
{
}

std::shared_ptr<core> client::make_core(std::function<std::string()> source, client_settings const &settings)
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

std::optional<lock> client::try_acquire(names const &what, options const &how, refusal *why)
{
    return acquire(what, how, {}, {}, why);
}

std::optional<lock> client::acquire(names const &what, options const &how, std::chrono::microseconds wait,
                                    std::stop_token stop, refusal *why)
{
    return acquire(what, how, limits{end_of(wait), std::move(stop)}, why);
}

std::optional<lock> client::acquire(names const &what, options const &how, limits const &limits, refusal *why)
{
    uncancelled const here;
    auto &core = require();
    auto const began = clock::now();
    auto const granted = internal::acquire(core.shared, core.waits, core.away, core.after, what, how, limits, why);
    if (!granted) {
        core.report(activity{activity::kind::refused, what, {}, how.tick, {}, clock::now() - began});
        return std::nullopt;
    }
    lock acquired{core_, core.make_lease(what, *granted, how.at_most)};
    if (how.keep_alive)
        core.keeping.keep(acquired.lease_);
    core.report(activity_of(activity::kind::acquired, *acquired.lease_, began));
    return acquired;
}

void client::finish(lock &mine, outcome how)
{
    uncancelled const here;
    if (!is_live(mine.lease_))
        return; // the work has released or detached it
    auto const &lease = *mine.lease_;
    bool const to_the_end = mine.held();
    bool const is_known_to_be_lost = lease.is_over() && !lease.was_done() && !lease.is_completing();
    bool was_done = false;
    try {
        if (is_known_to_be_lost)
            mine.end();
        else
            was_done = mine.give_back(to_the_end && !lease.is_completing() ? how : outcome::failed);
    } catch (connection_error const &failure) {
        if (to_the_end) // otherwise it is reported as lost
            mine.report_unreleased(failure);
    }
    if (!to_the_end && !was_done)
        throw lock_lost{lease.names.to_text() + " was lost, or its lease was about to end, before the work was over",
                        sqlstate::lost};
}

void client::extend(names const &what, token number, std::chrono::microseconds at_most,
                    std::optional<std::chrono::microseconds> at_least)
{
    uncancelled const here;
    auto &core = require();
    auto const began = clock::now();
    auto const until = core.shared.time_limit();
    persist(until, what.to_text() + " was extended",
            [&] { return internal::extend(core.shared, what, number, at_most, at_least, until); });
    core.report(activity{activity::kind::extended, what, number, {}, {}, clock::now() - began});
}

void client::release(names const &what, token number, outcome how)
{
    uncancelled const here;
    auto &core = require();
    auto const began = clock::now();
    auto const limit = core.shared.time_limit();
    bool const was_done = core.release(what, number, how, limit, limit);
    core.report(
        activity{activity::kind::released, what, number, {}, was_done ? outcome::done : how, clock::now() - began});
}

namespace internal {

std::optional<lock> tool_access::acquire(client &by, names const &what, options const &how, limits const &limits,
                                         refusal *why)
{
    return by.acquire(what, how, limits, why);
}

void tool_access::release_once(client &by, names const &what, token number, outcome how, clock::duration patience)
{
    auto &core = by.require();
    auto const over = std::min(core.shared.time_limit(), later(clock::now(), patience));
    core.release(what, number, how, clock::now(), over);
}

void tool_access::watch_session(client &by, lock &held, std::stop_token const &stop)
{
    auto &core = by.require();
    core.shared.await_loss(stop);
    if (!stop.stop_requested() && held.lease_->lose(sqlstate::lost))
        core.report(event::kind::lost, held.lease_->names, [&] {
            return "the session that held " + held.lease_->names.to_text() + " is lost: the work under it must stop";
        });
}

std::optional<std::string> tool_access::held_with(client &by, names const &what,
                                                  std::vector<std::int64_t> const &tokens)
{
    std::vector<std::string> numbers;
    for (auto const one : tokens)
        numbers.push_back(std::to_string(one));
    auto const rows = by.require()
                          .shared
                          .ask("SELECT name FROM @extschema@.shedlock_locks($1::pg_catalog.text[]) WHERE state "
                               "OPERATOR(pg_catalog.=) 'held' AND token OPERATOR(pg_catalog.=) ANY "
                               "($2::pg_catalog.int8[]) LIMIT 1",
                               {array_literal(what.list()), array_literal(numbers)})
                          .rows;
    return rows.empty() ? std::nullopt : rows[0][0];
}

} // namespace internal

bool client::force_release(std::string const &name)
{
    uncancelled const here;
    return require().ask_bool("shedlock_force_release($1::pg_catalog.text)", {names_literal(name)});
}

bool client::pause(std::string const &name, std::optional<std::string> const &reason, std::chrono::microseconds wait)
{
    uncancelled const here;
    auto &core = require();
    auto const until = end_of(wait);
    fields const arguments{names_literal(name), reason ? std::optional{text_literal("reason", *reason)} : std::nullopt};
    names const what{name};
    waiting::caller caller{core.waits, what};
    backoff pauses;
    for (;;) {
        try {
            bool const is_paused = core.ask_bool(
                "shedlock_pause($1::pg_catalog.text, $2::pg_catalog.text, '0'::pg_catalog.interval)", arguments);
            core.away.end(what);
            if (is_paused || clock::now() >= until)
                return is_paused;
            caller.wait(until);
        } catch (reply_lost const &failure) { // a second request would be refused because of the pause itself
            throw in_doubt{"it is not known whether " + what.to_text() + " was paused. " + failure.what()};
        } catch (connection_error const &failure) {
            if (clock::now() >= until)
                throw;
            core.away.begin(what, failure);
            pauses.rest(until, {});
        }
    }
}

bool client::resume(std::string const &name)
{
    uncancelled const here;
    return require().ask_bool("shedlock_resume($1::pg_catalog.text)", {names_literal(name)});
}

edition client::edition()
{
    uncancelled const here;
    return require().shared.edition();
}

} // namespace shedlock
