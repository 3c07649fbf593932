#include "nemesis.hpp"

#include "libpqxx.hpp"

#include <csignal>

namespace crowd {

using history::action;
using history::result;

namespace {

const std::string some_session =
    " FROM (SELECT pid FROM pg_stat_activity WHERE application_name = 'crowd' AND pid <> pg_backend_pid()";
const std::string by_chance = " ORDER BY random() LIMIT 1) one";
constexpr int most_sessions = 100;

// Each change has the name under which it is counted. If it empties the table, the history records that all locks are
// revoked.
struct table_change {
    const char *name;
    std::vector<std::string> statements;
    bool empties;
};
const std::vector<table_change> table_changes{
    {"VACUUM", {"VACUUM shedlock"}, false},
    {"VACUUM FULL", {"VACUUM FULL shedlock"}, false},
    {"CLUSTER", {"CLUSTER shedlock USING shedlock_pkey"}, false},
    {"REINDEX CONCURRENTLY", {"REINDEX TABLE CONCURRENTLY shedlock"}, false},
    // From PostgreSQL 19 on; syntax errors before.
    {"REPACK", {"REPACK shedlock USING INDEX shedlock_pkey"}, false},
    {"REPACK CONCURRENTLY", {"REPACK (CONCURRENTLY) shedlock"}, false},
    {"SET SCHEMA",
     {"ALTER EXTENSION shedlock SET SCHEMA elsewhere", "ALTER EXTENSION shedlock SET SCHEMA public"},
     false},
    // This changes a column that the locks do not need: a view uses the others, so the server refuses to change their
    // types.
    {"ALTER TYPE",
     {"ALTER TABLE shedlock ADD IF NOT EXISTS note int", "ALTER TABLE shedlock ALTER note TYPE text",
      "ALTER TABLE shedlock DROP IF EXISTS note"},
     false},
    {"TRUNCATE", {"TRUNCATE shedlock"}, true},
    {"DROP and CREATE EXTENSION", {"DROP EXTENSION shedlock", "CREATE EXTENSION IF NOT EXISTS shedlock"}, false},
};

} // namespace

nemesis::nemesis(std::string connection, std::vector<std::string> faults, const scene &scene, recorder &recorder,
                 counts &all, std::uint64_t seed)
    : where_{std::move(connection)}, faults_{std::move(faults)}, scene_{scene}, recorder_{recorder}, counts_{all},
      random_{seed}
{
}

nemesis::~nemesis()
{
    for (const auto &[process, until] : asleep_)
        ::kill(process, SIGCONT);
}

void nemesis::cause_fault(const std::vector<pid_t> &clients)
{
    if (faults_.empty() || clients.empty())
        return;
    try {
        cause(random_.one_of(faults_), clients);
    } catch (const pqxx::failure &) {
        connection_.reset(); // the fault may have hit this session
    }
}

void nemesis::cause(const std::string &fault, const std::vector<pid_t> &clients)
{
    if (fault == "kill")
        kill_client(clients);
    else if (fault == "stop")
        stop_client(clients);
    else if (fault == "cancel" || fault == "terminate")
        signal_backend("pg_" + fault + "_backend", fault);
    else if (fault == "backend")
        kill_backend();
    else if (fault == "delete")
        delete_row();
    else if (fault == "force")
        force_release();
    else if (fault == "ddl")
        change_table();
    else
        throw std::runtime_error{"unknown fault " + fault};
}

// The session of a killed client ends when it next reads or writes, which may be long after: when a lock that it waits
// for is free. Clients are killed only while the server has room for those that replace them.
void nemesis::kill_client(const std::vector<pid_t> &clients)
{
    if (ask("SELECT count(*)" + some_session + ") one")[0][0].as<int>() > most_sessions)
        return;
    const auto victim = random_.one_of(clients);
    if (::kill(victim, SIGKILL) == 0)
        ++counts_["fault.kill"];
    asleep_.erase(victim);
}

// Most leases end while the client is stopped.
void nemesis::stop_client(const std::vector<pid_t> &clients)
{
    const auto victim = random_.one_of(clients);
    if (asleep_.contains(victim) || asleep_.size() + 1 >= clients.size() || ::kill(victim, SIGSTOP) != 0)
        return;
    ++counts_["fault.stop"];
    asleep_[victim] = now().at + scene_.longest / 2 + random_.between(0, scene_.longest * 5 / 2);
}

void nemesis::wake_sleepers()
{
    std::erase_if(asleep_,
                  [](const auto &one) { return one.second <= now().at && (::kill(one.first, SIGCONT), true); });
}

pqxx::result nemesis::ask(const std::string &sql)
{
    if (!connection_) {
        connection_ = std::make_unique<pqxx::connection>(where_);
        ask("SET lock_timeout = '2s'");
    }
    pqxx::nontransaction direct{*connection_};
    return direct.exec(sql);
}

// Calls the function for a session in the middle of a statement.
void nemesis::signal_backend(const std::string &function, const std::string &fault)
{
    const auto done = ask("SELECT " + function + "(pid)" + some_session + " AND state = 'active'" + by_chance);
    counts_["fault." + fault] += static_cast<std::int64_t>(done.size());
}

void nemesis::kill_backend()
{
    for (const auto &row : ask("SELECT pid" + some_session + by_chance))
        counts_["fault.backend"] += ::kill(row[0].as<pid_t>(), SIGKILL) == 0;
    connection_.reset();
}

// If the work fails, the history records that it may have happened.
void nemesis::revoke(action what, const std::vector<std::string> &names, const std::function<bool()> &work)
{
    operation op{.what = what, .names = names};
    recorder_.call(op);
    op.result = result::lost;
    try {
        op.result = work() ? result::yes : result::no;
    } catch (const pqxx::failure &) {
        connection_.reset();
    }
    recorder_.done(op);
}

void nemesis::delete_row()
{
    const auto name = random_.one_of(scene_.names);
    revoke(action::revoke, {name}, [&] {
        const auto rows = ask("DELETE FROM shedlock WHERE name = '" + name +
                              "' RETURNING lock_until > timezone('utc', clock_timestamp())");
        if (!rows.empty())
            ++counts_[rows[0][0].as<bool>() ? "fault.delete of a held row" : "fault.delete of a free row"];
        return !rows.empty(); // the DELETE does not see a row whose INSERT is not committed
    });
}

void nemesis::force_release()
{
    const auto name = random_.one_of(scene_.names);
    revoke(action::force, {name}, [&] {
        const bool was_held = ask("SELECT shedlock_force_release('" + name + "')")[0][0].as<bool>();
        ++counts_[was_held ? "fault.force_release of a held lock" : "fault.force_release of a free lock"];
        return was_held;
    });
}

void nemesis::change_table()
{
    const auto &change = random_.one_of(table_changes);
    const auto work = [&] {
        for (const auto &statement : change.statements)
            for (bool done = false; !done;) {
                try {
                    ask(statement);
                    done = true;
                } catch (const pqxx::sql_error &) {
                    if (&statement == &change.statements.front() || !recorder_.may_go_on())
                        throw; // nothing was changed, or the history is over; otherwise the change must be finished
                } catch (const pqxx::broken_connection &) { // a fault of another history hit this session
                    connection_.reset();
                    if (!recorder_.may_go_on())
                        throw;
                    done = &statement == &change.statements.front(); // it may have happened
                }
            }
        ++counts_[std::string{"fault."} + change.name];
        return true;
    };
    auto names = scene_.names;
    names.insert(names.end(), scene_.tick_names.begin(), scene_.tick_names.end());
    if (change.empties)
        revoke(action::revoke, names, work);
    else
        work();
}

} // namespace crowd
