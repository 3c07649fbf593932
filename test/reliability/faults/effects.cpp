// effects CONNECTION TICKS kills|calm|backlog: several scheduler processes run a job that is due once per tick. Its
// effect is a row in the table effects, which has no constraint. Another process announces a tick, and the next one
// when the effect of that tick exists. Each scheduler asks again and again for the tick that was announced last. With
// backlog, all ticks are in the past, and each scheduler asks for the oldest that is not done. If that is refused, it
// waits and then asks for the oldest again, never for the next one. Unless calm, sessions are killed meanwhile, most of
// them in the middle of a run. The leases are longer than any process waits, so the program makes progress only because
// the lock of a dead session is free.
//
// Prints "tick N" when tick N is announced, or, with backlog, done, and "count KEY N" lines at the end. Fails if a tick
// takes ten minutes, or if anything other than the loss of a session goes wrong.
#include "crowd.hpp"

#include "libpqxx.hpp"
#include "processes.hpp"

#include <iostream>
#include <unistd.h>

namespace {

using crowd::microseconds;

constexpr microseconds patience = 600'000'000;
constexpr microseconds distance = 60'000'000; // between the ticks of a backlog

// A season is one run of this program: a number of ticks, and the faults (except when calm) that happen meanwhile.
enum class seasons { kills, calm, backlog };

// A connection that reconnects when its session or the server is lost.
class persistent {
public:
    explicit persistent(std::string where) : where_{std::move(where)} {}

    // Returns nullopt if the session was lost. Then it is not known whether the request was carried out.
    std::optional<pqxx::result> ask(const std::string &sql)
    try {
        if (!connection_) {
            connection_ = std::make_unique<pqxx::connection>(where_);
            shedlock::libpqxx::never_reconnect(*connection_);
        }
        return pqxx::nontransaction{*connection_}.exec(sql);
    } catch (const pqxx::failure &failure) {
        const auto state = shedlock::libpqxx::sqlstate(failure);
        if (!state.empty() && !state.starts_with("57P") && !state.starts_with("08") && connection_ &&
            connection_->is_open())
            throw;
        connection_.reset();
        crowd::pause(1000);
        return std::nullopt;
    }

    // Repeats the request after each loss.
    pqxx::result insist(const std::string &sql)
    {
        for (const auto end = crowd::now().at + patience; crowd::now().at < end;)
            if (const auto rows = ask(sql))
                return *rows;
        throw std::runtime_error{"no server"};
    }

private:
    const std::string where_;
    std::unique_ptr<pqxx::connection> connection_;
};

using due = std::atomic<microseconds>;

// The tick after the last one that is done. `first` is the first tick of the backlog, which was announced.
std::optional<microseconds> oldest_of_backlog(persistent &server, microseconds first, int ticks)
{
    const auto rows =
        server.ask("SELECT (extract(epoch FROM last_done_tick) * 1000000)::bigint FROM shedlock WHERE name = 'job'");
    if (!rows)
        return std::nullopt;
    const bool is_first = rows->empty() || (*rows)[0][0].is_null();
    const auto next = is_first ? first : (*rows)[0][0].as<microseconds>() + distance;
    return next < first + ticks * distance ? std::optional{next} : std::nullopt;
}

// Half of the runs end at once, so that some sessions are also killed at the beginning or the end of a run.
[[noreturn]] void be_scheduler(const std::string &where, const due &tick, int backlog, std::uint64_t seed)
try {
    crowd::choices random{seed};
    for (persistent server{where};; crowd::pause(random.between(100, 2000))) {
        if (tick == 0)
            continue; // no tick has been announced yet
        const auto wanted = backlog ? oldest_of_backlog(server, tick, backlog) : std::optional{tick.load()};
        if (!wanted)
            continue;
        const auto text = std::to_string(*wanted);
        const auto work = random.one_in(2) ? 0 : random.between(0, 10);
        server.ask("CALL shedlock_run('job', 'INSERT INTO effects VALUES (" + text + "); SELECT pg_sleep(0.001 * " +
                   std::to_string(work) + ")', '10 hours', tick => to_timestamp(" + text +
                   "::numeric / 1000000), retry => true)");
    }
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    ::_exit(1);
}

class season {
public:
    season(const std::string &where, due &tick, seasons kind)
        : server_{where}, tick_{tick}, kind_{kind}, random_{std::random_device{}()}
    {
    }

    void have(int ticks)
    {
        if (kind_ == seasons::backlog)
            catch_up(ticks);
        for (int n = 1; kind_ != seasons::backlog && n <= ticks; ++n) {
            announce();
            std::cout << "tick " << n << std::endl;
            see_through();
        }
        for (const auto &[what, number] :
             {std::pair{"terminated", terminated_}, {"killed", killed_}, {"longest", longest_}})
            std::cout << "count " << what << ' ' << number << '\n';
    }

private:
    // A new tick is later than the previous run, because that run's effect has been seen.
    void announce() { tick_ = time_of_server(); }

    microseconds time_of_server()
    {
        return ask_for_number("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint");
    }

    microseconds ask_for_number(const std::string &sql) { return server_.insist(sql)[0][0].as<microseconds>(); }

    // The last of the ticks was due a minute ago.
    void catch_up(int ticks)
    {
        tick_ = time_of_server() - ticks * distance;
        int done = 0;
        for (auto since = crowd::now().at; done < ticks;) {
            random_.one_in(2) ? cause_fault() : crowd::pause(5000);
            for (const auto seen = ask_for_number("SELECT count(DISTINCT tick) FROM effects"); done < seen;) {
                std::cout << "tick " << ++done << std::endl;
                longest_ = std::max(longest_, crowd::now().at - since);
                since = crowd::now().at;
            }
            if (crowd::now().at > since + patience)
                throw std::runtime_error{"a tick does not get done"};
        }
    }

    void see_through()
    {
        const auto begin = crowd::now().at;
        for (bool is_safe = kind_ == seasons::calm || random_.one_in(4);; is_safe = true) {
            if (!is_safe)
                cause_fault();
            else if (!server_.insist("SELECT FROM effects WHERE tick = " + std::to_string(tick_)).empty())
                break;
            if (crowd::now().at > begin + patience)
                throw std::runtime_error{"a tick does not get done"};
        }
        longest_ = std::max(longest_, crowd::now().at - begin);
    }

    // Terminates a scheduler's session, or kills it (one time in forty). In three of four cases it is the session that
    // holds the job's lock, at once or a little later. Otherwise it is a random active one, at a random moment.
    void cause_fault()
    {
        const bool at_random = random_.one_in(4);
        const auto victim = std::string{"SELECT pid FROM pg_stat_activity WHERE application_name = 'scheduler' AND pid "
                                        "<> pg_backend_pid() AND "} +
                            (at_random ? "state = 'active' ORDER BY random()"
                                       : "query LIKE 'CALL%' AND pid = (SELECT "
                                         "holder_pid FROM shedlock_locks WHERE name = 'job' AND state = 'held')") +
                            " LIMIT 1";
        crowd::pause(at_random || random_.one_in(2) ? random_.between(0, 5000) : 0);
        const bool kills = random_.one_in(40);
        for (const auto end = crowd::now().at + 20'000; crowd::now().at < end;) {
            const auto rows =
                server_.ask(kills ? victim : "SELECT pg_terminate_backend(pid) FROM (" + victim + ") one");
            if (!rows || rows->empty())
                continue;
            if (kills)
                killed_ += ::kill((*rows)[0][0].as<pid_t>(), SIGKILL) == 0;
            else
                ++terminated_;
            return;
        }
    }

    persistent server_;
    due &tick_;
    const seasons kind_;
    crowd::choices random_;
    microseconds terminated_ = 0, killed_ = 0, longest_ = 0;
};

} // namespace

int main(int count, char **words)
try {
    if (count != 4)
        throw std::runtime_error{"effects CONNECTION TICKS kills|calm|backlog"};
    const std::string where = words[1], how = words[3];
    const auto kind = how == "calm" ? seasons::calm : how == "backlog" ? seasons::backlog : seasons::kills;
    const int ticks = std::stoi(words[2]), backlog = kind == seasons::backlog ? ticks : 0;
    auto &tick = processes::shared_memory<due>();
    std::vector<pid_t> all;
    for (int i = 0; i < (backlog ? 3 : 4); ++i)
        if (all.push_back(::fork()); all.back() == 0)
            be_scheduler(where + " application_name=scheduler", tick, backlog, std::random_device{}());
    bool all_well = true;
    try {
        season{where, tick, kind}.have(ticks);
    } catch (const std::exception &failure) {
        std::cerr << failure.what() << std::endl;
        all_well = false;
    }
    all_well &= processes::end_all(all);
    return all_well ? 0 : 1;
} catch (const std::exception &failure) {
    std::cerr << failure.what() << std::endl;
    return 2;
}
