#include "tool_access.hpp"

#include "core.hpp"
#include "literal.hpp"

namespace shedlock::internal {

void tool_access::connect_patiently(client &by)
{
    by.require().shared.connect_patiently();
}

std::optional<lock> tool_access::acquire(client &by, const names &what, const options &how, const limits &limits,
                                         refusal *why)
{
    return by.acquire(what, how, limits, why);
}

void tool_access::release_once(client &by, const names &what, token number, outcome how, std::string_view detail,
                               clock::duration patience)
{
    auto &core = by.require();
    const auto over = std::min(core.shared.time_limit(), later(clock::now(), patience));
    core.release(what, number, how, clock::now(), over, detail);
}

void tool_access::abandon(lock &held) noexcept
{
    held.end();
}

void tool_access::fail(lock &held, const std::exception &why) noexcept
{
    held.fail(&why);
}

void tool_access::watch_session(client &by, lock &held, const std::stop_token &stop)
{
    auto &core = by.require();
    core.shared.await_loss(stop);
    if (!stop.stop_requested() && held.lease_->lose(sqlstate::lost))
        core.report(event::kind::lost, held.lease_->names, [&] {
            return "the session that held " + held.lease_->names.to_text() + " is lost: the work under it must stop";
        });
}

std::optional<std::string> tool_access::held_with(client &by, const names &what,
                                                  const std::vector<std::int64_t> &tokens)
{
    std::vector<std::string> numbers;
    for (const auto one : tokens)
        numbers.push_back(std::to_string(one));
    auto &shared = by.require().shared;
    const auto rows =
        ask_older([&](bool older) {
            return shared.ask(std::string{"SELECT name FROM @extschema@.shedlock_locks"} +
                                  (older ? "" : "($1::pg_catalog.text[])") +
                                  " WHERE name OPERATOR(pg_catalog.=) ANY ($1::pg_catalog.text[]) AND state "
                                  "OPERATOR(pg_catalog.=) 'held' AND token OPERATOR(pg_catalog.=) ANY "
                                  "($2::pg_catalog.int8[]) LIMIT 1",
                              {array_literal(what.list()), array_literal(numbers)});
        }).rows;
    return rows.empty() ? std::nullopt : rows[0][0];
}

} // namespace shedlock::internal
