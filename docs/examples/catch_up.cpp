// A job that runs once for each day, including days on which no host was up: missed days are caught up one by one, the
// oldest first. Any host may start this program at any time, as often as you like. It writes into a table:
// CREATE TABLE interest_paid (day timestamptz)
#include <iostream>
#include <shedlock/pqxx.hpp>

using namespace std::chrono_literals;

namespace {

// Returns the oldest day that is due: the last day that was tried, if it was not done, otherwise the day after it. If
// the job has never run, it begins three days back.
std::optional<shedlock::instant> oldest_due(pqxx::connection &db)
{
    pqxx::work tx{db};
    const auto due = tx.exec(R"(
        SELECT (extract(epoch FROM day) * 1000000)::bigint
          FROM (SELECT COALESCE((SELECT GREATEST(last_done_tick, last_tick - interval '1 microsecond')
                                   FROM shedlock_locks WHERE name = 'interest'),
                                now() - interval '3 days') AS since) AS last,
               shedlock_ticks('1 day', since, 'Europe/Berlin') AS day
         ORDER BY day LIMIT 1)");
    if (due.empty())
        return std::nullopt;
    return shedlock::instant{std::chrono::microseconds{due[0][0].as<long long>()}};
}

void pay(pqxx::work &tx, shedlock::instant day)
{
    tx.exec("INSERT INTO interest_paid VALUES (timestamptz 'epoch' + interval '1 microsecond' * " +
            std::to_string(day.time_since_epoch().count()) + ")");
}

} // namespace

int main()
try {
    pqxx::connection db;
    while (const auto day = oldest_due(db)) {
        const bool ran = shedlock::run(db, "interest", {.at_most = 50min, .tick = day, .retry = true},
                                       [&](pqxx::work &tx) { pay(tx, *day); });
        if (!ran) { // another host is running this day, or has just done it; skipping it might give it up for good
            std::cout << "another host pays, or has just paid\n";
            return 0;
        }
        std::cout << "paid for a day\n";
    }
} catch (const std::exception &failure) { // the next start begins with the oldest day that is not done
    std::cerr << failure.what() << '\n';
    return 1;
}
