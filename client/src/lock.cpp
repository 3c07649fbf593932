#include "lease.hpp"

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
        release_or_warn();
        lease_ = std::move(other.lease_);
        core_ = std::move(other.core_);
    }
    return *this;
}

lock::~lock()
{
    release_or_warn();
}

lease &lock::require() const
{
    if (!lease_)
        throw usage_error{"this lock was released, detached or moved from"};
    return *lease_;
}

bool lock::held() const noexcept
{
    return clock::now() < deadline();
}

clock::time_point lock::deadline() const noexcept
{
    return lease_ ? lease_->deadline() : clock::time_point::min();
}

std::stop_token lock::stop_token() const noexcept
{
    return lease_ ? lease_->stop_token() : std::stop_token{};
}

token lock::token() const
{
    return require().token;
}

names const &lock::names() const
{
    return require().names;
}

void lock::extend(std::chrono::microseconds at_most, std::optional<std::chrono::microseconds> at_least)
{
    auto &mine = require();
    // Each try is told to the lease, because one that is given up on may still come to something.
    persist(core_->timeout(), [&] {
        mine.extend(at_most,
                    [&] { return internal::extend(core_->shared, mine.names, mine.token, at_most, at_least); });
    });
}

void lock::release(outcome how)
{
    if (lease_)
        release_until(core_->timeout(), how);
}

void lock::release_until(clock::time_point until, outcome how)
{
    auto const mine = std::exchange(lease_, nullptr);
    mine->end();
    core_->release(mine->names, mine->token, how, until);
}

// Does not wait for a server that is gone.
void lock::release_or_warn() noexcept
try {
    if (!lease_)
        return;
    bool const unwinding = std::uncaught_exceptions() > lease_->exceptions;
    release_until(clock::now(), unwinding || !held() ? outcome::failed : outcome::done);
} catch (std::exception const &failure) {
    warn_unreleased(failure);
}

void lock::warn_unreleased(std::exception const &failure) const noexcept
{
    core_->warn([&] { return std::string{"not released, and ends by itself: "} + failure.what(); });
}

void lock::guard(pqxx::transaction_base &transaction) const
{
    auto &mine = require();
    auto const sql =
        core_->shared.in_schema("SELECT @extschema@.shedlock_guard_token($1::pg_catalog.text, $2::pg_catalog.int8)");
    try {
        for (auto const &name : mine.names.list())
            libpqxx::exec(transaction, sql, {name, std::to_string(static_cast<std::int64_t>(mine.token))});
    } catch (pqxx::failure const &failure) {
        if (libpqxx::sqlstate(failure) == "SL001")
            throw lock_lost{one_line(failure.what()), "SL001"};
        throw;
    }
}

token lock::detach()
{
    auto const number = require().token;
    std::exchange(lease_, nullptr)->end();
    return number;
}

} // namespace shedlock
