#include "server.hpp"

#include <cstdlib>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <thread>

// With AddressSanitizer: libpqxx 6.4 does not free a result if the session is terminated.
extern "C" const char *__lsan_default_suppressions();
extern "C" const char *__lsan_default_suppressions()
{
    return "leak:libpqxx\n";
}

namespace server {

using namespace std::chrono_literals;
using namespace std::string_literals;

namespace {

class database : public testing::Environment {
    void SetUp() override
    {
        if (ask("SELECT to_regprocedure('shedlock_version()')").empty()) // with-portable was not used
            ask("CREATE EXTENSION shedlock");
    }
};

[[maybe_unused]] auto *const environment = testing::AddGlobalTestEnvironment(new database);

std::string variable(const char *name, const char *otherwise)
{
    const auto *const value = std::getenv(name);
    return value ? value : otherwise;
}

std::string about(const std::string &what, const std::string &lock)
{
    return ask("SELECT " + what + " FROM shedlock_locks WHERE name = " + literal(lock));
}

int signal(const std::string &function, const std::string &text)
{
    return std::stoi(ask("SELECT count(" + function +
                         "(pid)) FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()"
                         " AND query LIKE '%' || " +
                         literal(text) + " || '%'"));
}

std::string waiting_commits()
{
    return ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
}

std::unique_ptr<pqxx::connection> connect()
{
    auto direct = std::make_unique<pqxx::connection>("application_name=test client_encoding=UTF8");
    pqxx::nontransaction{*direct}.exec("SET synchronous_commit = local; SET default_transaction_read_only = off");
    return direct;
}

std::string answer(pqxx::connection &from, const std::string &sql)
{
    const auto rows = pqxx::nontransaction{from}.exec(sql);
    return rows.empty() || rows[0][0].is_null() ? "" : rows[0][0].c_str();
}

// While a condition is polled, its queries go over one connection. A new connection for each of them would cost more
// processor time than everything else that the tests do.
thread_local std::unique_ptr<pqxx::connection> *polled = nullptr;

class polling {
public:
    polling() { polled = &connection_; }
    ~polling() { polled = outer_; }
    polling(const polling &) = delete;
    polling &operator=(const polling &) = delete;

private:
    std::unique_ptr<pqxx::connection> connection_;
    std::unique_ptr<pqxx::connection> *const outer_ = polled;
};

} // namespace

std::string ask(const std::string &sql)
{
    if (!polled)
        return answer(*connect(), sql);
    if (*polled)
        try {
            return answer(**polled, sql);
        } catch (const pqxx::broken_connection &) { // the server was restarted, or the session terminated
        }
    *polled = connect();
    return answer(**polled, sql);
}

std::string literal(const std::string &text)
{
    std::string literal = "'";
    for (const char letter : text)
        literal += letter == '\'' ? std::string{"''"} : std::string{letter};
    return literal + "'";
}

bool is_portable()
{
    return ask("SELECT edition FROM shedlock_version()") == "portable";
}

std::string connection()
{
    return variable("SHEDLOCK_TEST_CONNECTION", "");
}

std::string host()
{
    return variable("SHEDLOCK_TEST_HOST", variable("PGHOST", "localhost").c_str());
}
std::string port()
{
    return variable("SHEDLOCK_TEST_PORT", variable("PGPORT", "5432").c_str());
}

std::string state(const std::string &lock)
{
    return about("state", lock);
}
std::string holder(const std::string &lock)
{
    return about("holder", lock);
}
std::string last_outcome(const std::string &lock)
{
    return about("last_outcome", lock);
}

std::int64_t token(const std::string &lock)
{
    const auto text = about("token", lock);
    return text.empty() ? 0 : std::stoll(text);
}

std::chrono::microseconds remaining(const std::string &lock)
{
    const auto seconds = about("extract(epoch FROM remaining)", lock);
    return std::chrono::microseconds{seconds.empty() ? 0 : static_cast<std::int64_t>(std::stod(seconds) * 1e6)};
}

void end_lease(const std::string &lock)
{
    ask("UPDATE shedlock SET lock_until = clock_timestamp() AT TIME ZONE 'UTC' WHERE name = " + literal(lock));
}

bool was_refused(const std::string &lock)
{
    return ask("SELECT EXISTS (SELECT FROM pg_stat_activity a JOIN shedlock_locks l ON a.state_change > l.locked_at"
               " WHERE l.name = " +
               literal(lock) +
               " AND a.application_name <> 'test' AND a.state = 'idle'"
               " AND a.query ~ 'shedlock_acquire_token|^SELECT asked_for')") == "t"; // (its end is cut off)
}

int cancel(const std::string &text)
{
    return signal("pg_cancel_backend", text);
}
int terminate(const std::string &text)
{
    return signal("pg_terminate_backend", text);
}

missing_standby::missing_standby()
{
    ask("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    ask("SELECT pg_reload_conf()");
    // Commits wait only once the checkpointer, too, has read the configuration. So a session commits until it is seen
    // to wait.
    const auto commits = std::async(std::launch::async, [] {
        try {
            pqxx::connection own{"application_name=commits"};
            pqxx::nontransaction{own}.exec("DO $$ BEGIN LOOP PERFORM pg_logical_emit_message(true, '', ''), "
                                           "pg_sleep(0.01); COMMIT; END LOOP; END $$");
        } catch (const pqxx::failure &) { // it is terminated
        }
    });
    const auto its = "FROM pg_stat_activity WHERE application_name = 'commits'"s;
    comes_true([&] { return ask("SELECT count(*) " + its + " AND wait_event = 'SyncRep'") == "1"; });
    ask("SELECT pg_terminate_backend(pid) " + its);
}

// A session whose client has gone may still wait, and only the checkpointer wakes it. If the next test made commits
// wait before that, the session would wait on, and that test would take its wait for the one it looks for.
missing_standby::~missing_standby()
{
    ask("ALTER SYSTEM RESET synchronous_standby_names");
    ask("SELECT pg_reload_conf()");
    comes_true([] { return waiting_commits() == "0"; });
}

bool a_commit_waits_for_the_standby()
{
    return waiting_commits() == "1";
}

kept_history::kept_history() : since_{ask("SELECT clock_timestamp()")}
{
    ask("SELECT shedlock_keep_history()");
}

kept_history::~kept_history()
{
    ask("SELECT shedlock_keep_history(false)");
}

std::string kept_history::of(const std::string &lock) const
{
    return ask(
        "SELECT string_agg(concat_ws(': ', outcome, detail), E'\\n' ORDER BY token) FROM shedlock_history(ARRAY[" +
        literal(lock) + "]) WHERE ended_at > " + literal(since_));
}

bool comes_true(const std::function<bool()> &condition)
{
    const polling over_one_connection;
    for (const auto end = std::chrono::steady_clock::now() + at_last; std::chrono::steady_clock::now() < end;) {
        if (condition())
            return true;
        std::this_thread::sleep_for(10ms);
    }
    return false;
}

} // namespace server
