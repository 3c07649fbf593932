#include "lease.hpp"
#include "literal.hpp"

namespace shedlock {

using namespace internal;

namespace internal {
namespace {

// Or nobody would be there to release it.
std::shared_ptr<lease> lease_of(core &core, names const &what, grant const &granted, std::chrono::microseconds at_most)
try {
    return std::make_shared<lease>(core, what, granted, at_most);
} catch (...) {
    core.release(what, granted.token, outcome::failed, core.timeout());
    throw;
}

} // namespace
} // namespace internal

error::error(std::string const &message, std::string sqlstate)
    : std::runtime_error{message}, sqlstate_{std::move(sqlstate)}
{
}
// Here, so that each type has one home, and is the same type in every library that throws or catches it.
error::~error() = default;
connection_error::~connection_error() = default;
in_doubt::~in_doubt() = default;
lock_lost::~lock_lost() = default;
usage_error::~usage_error() = default;

std::string names::to_text() const
{
    std::string text;
    for (auto const &name : list_)
        text += (text.empty() ? "lock \"" : ", \"") + name + '"';
    return text;
}

client::client(std::string const &connection, client_settings settings)
    : core_{std::make_shared<core>(connection, std::move(settings))}
{
}

client::client(client &&) noexcept = default;
client &client::operator=(client &&) noexcept = default;
client::~client() = default;

std::optional<lock> client::try_acquire(names const &what, options const &how)
{
    return acquire(what, how, {});
}

std::optional<lock> client::acquire(names const &what, options const &how, std::chrono::microseconds wait,
                                    std::stop_token stop)
{
    auto const granted = internal::acquire(core_->shared, what, how, clock::now() + wait, stop);
    if (!granted)
        return std::nullopt;
    lock acquired{core_, internal::lease_of(*core_, what, *granted, how.at_most)};
    if (how.keep_alive)
        acquired.lease_->keep_alive();
    return acquired;
}

void client::finish(lock &mine)
{
    if (!mine.lease_)
        return; // the work has released or detached it
    auto const lease = mine.lease_;
    bool const to_the_end = mine.held();
    try {
        mine.release(to_the_end ? outcome::done : outcome::failed);
    } catch (connection_error const &failure) {
        mine.warn_unreleased(failure); // and the work is done
    }
    if (!to_the_end)
        throw lock_lost{lease->names.to_text() + " was lost, or its lease about to end, before the work was over",
                        "SL001"};
}

void client::extend(names const &what, token number, std::chrono::microseconds at_most,
                    std::optional<std::chrono::microseconds> at_least)
{
    core_->extend(what, number, at_most, at_least);
}

void client::release(names const &what, token number, outcome how)
{
    core_->release(what, number, how, core_->timeout());
}

bool client::force_release(std::string const &name)
{
    return core_->ask_bool("shedlock_force_release($1)", {text_literal("name", name)});
}

bool client::pause(std::string const &name, std::optional<std::string> const &reason, std::chrono::microseconds wait)
{
    auto const until = clock::now() + wait;
    libpqxx::parameters const arguments{text_literal("name", name),
                                        reason ? std::optional{text_literal("reason", *reason)} : std::nullopt};
    for (;;) {
        if (persist(until, [&] { return core_->ask_bool("shedlock_pause($1, $2)", arguments); }))
            return true;
        if (clock::now() >= until)
            return false;
        rest(until);
    }
}

bool client::resume(std::string const &name)
{
    return core_->ask_bool("shedlock_resume($1)", {text_literal("name", name)});
}

} // namespace shedlock
