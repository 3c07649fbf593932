// The wrapper for libpqxx: everything but commits in doubt. Also compiles as C++17.
#include "server.hpp"

#include <future>
#include <gtest/gtest.h>
#include <shedlock/pqxx.hpp>

using namespace std::chrono_literals;
using shedlock::outcome;
using shedlock::pqxx_lock;

namespace {

#define ONLY_THE_EXTENSION(why)                                                                                        \
    if (server::is_portable())                                                                                         \
    GTEST_SKIP() << "the portable edition: " << (why)

static_assert(!std::is_copy_constructible_v<pqxx_lock> && !std::is_copy_assignable_v<pqxx_lock>);
static_assert(std::is_nothrow_move_constructible_v<pqxx_lock> && std::is_nothrow_move_assignable_v<pqxx_lock>);

// ---- What happens ----

// A table that shows whether work was committed.
class table_of_work {
public:
    table_of_work() { server::ask("CREATE TABLE effect (at timestamptz DEFAULT now())"); }
    ~table_of_work() { server::ask("DROP TABLE effect"); }
    table_of_work(const table_of_work &) = delete;
    table_of_work &operator=(const table_of_work &) = delete;
    [[nodiscard]] std::string rows() const { return server::ask("SELECT count(*) FROM effect"); }
};

template <class Tx> void insert(Tx &tx)
{
    tx.exec("INSERT INTO effect DEFAULT VALUES");
}

#if PQXX_VERSION_MAJOR < 7 // later ones let nobody derive from their transactions
// A transaction with a stream, or with something that happens when it begins or is committed.
class odd_work : public pqxx::work {
public:
    static inline std::function<void()> at_begin;
    static inline bool is_disconnected_by_its_commit = false;

    explicit odd_work(pqxx::connection &connection) : namedclass{"odd_work"}, pqxx::work{connection}
    {
        if (at_begin)
            at_begin();
    }
    void commit()
    {
        pqxx::work::commit();
        if (is_disconnected_by_its_commit)
            conn().disconnect();
    }
    std::optional<pqxx::pipeline> stream;
};
#endif

// What the connection reports for as long as this lives.
#if PQXX_VERSION_MAJOR < 7 || (PQXX_VERSION_MAJOR == 7 && PQXX_VERSION_MINOR < 10)
class notices : pqxx::errorhandler {
public:
    explicit notices(pqxx::connection &connection) : errorhandler{connection} {}
    bool operator()(const char text[]) noexcept override
    {
        all += text;
        return false;
    }
    std::string all;
};
#else
class notices {
public:
    explicit notices(pqxx::connection &connection) : connection_{connection}
    {
        connection_.set_notice_handler([this](pqxx::zview text) noexcept { all += text; });
    }
    ~notices() { connection_.set_notice_handler({}); }
    notices(const notices &) = delete;
    notices &operator=(const notices &) = delete;
    std::string all;

private:
    pqxx::connection &connection_;
};
#endif

// An advisory lock that is held, so that a statement has to wait for it.
class barrier {
public:
    barrier() { hold_.exec("SELECT pg_advisory_lock(31)"); }
    static constexpr const char *wait = "SELECT pg_advisory_lock_shared(31), pg_advisory_unlock_shared(31)";
    [[nodiscard]] static bool is_waited_for()
    {
        return server::comes_true([] {
            return server::ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == "1";
        });
    }
    void open() { hold_.exec("SELECT pg_advisory_unlock(31)"); }

private:
    pqxx::connection connection_;
    pqxx::nontransaction hold_{connection_};
};

std::string state_of(const std::function<void()> &call)
{
    try {
        call();
    } catch (const pqxx::sql_error &failure) {
        return std::string{failure.sqlstate()};
    }
    return "none";
}

void set(pqxx::connection &connection, const std::string &setting)
{
    pqxx::nontransaction{connection}.exec("SET " + setting);
}

std::string session(pqxx::connection &connection)
{
    pqxx::work tx{connection};
    return tx.exec("SELECT pg_backend_pid()")[0][0].c_str();
}

class pqxx_test : public testing::Test {
protected:
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    pqxx::connection db{server::connection()};
    const shedlock::instant noon{std::chrono::seconds{1577880000}}; // 2020-01-01 12:00 UTC
};

} // namespace

// ---- Acquire ----

TEST_F(pqxx_test, acquires_what_is_free_and_skips_what_is_held)
{
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    ASSERT_TRUE(mine);
    EXPECT_EQ(server::state(name), "held");
    EXPECT_EQ(static_cast<std::int64_t>(mine->token()), server::token(name));
    EXPECT_EQ(mine->names().list(), std::vector{name});
    EXPECT_FALSE(mine->tick());
    pqxx::connection other{server::connection()};
    EXPECT_FALSE(shedlock::try_acquire(other, name, {.at_most = 1min}));
    EXPECT_FALSE(shedlock::try_acquire(db, name, {.at_most = 1min})) << "it is not reentrant";
    mine->release();
    EXPECT_TRUE(shedlock::try_acquire(other, name, {.at_most = 1min}));
}

TEST_F(pqxx_test, acquires_several_all_or_none)
{
    auto one = shedlock::try_acquire(db, name + "2", {.at_most = 1min});
    EXPECT_FALSE(shedlock::try_acquire(db, {name + "1", name + "2"}, {.at_most = 1min}));
    EXPECT_NE(server::state(name + "1"), "held");
    one->release();
    auto both = shedlock::try_acquire(db, {name + "1", name + "2"}, {.at_most = 1min});
    ASSERT_TRUE(both);
    both->extend(2h);
    EXPECT_GT(server::remaining(name + "1"), 1h);
    EXPECT_GT(server::remaining(name + "2"), 1h);
    pqxx::work tx{db};
    guard(*both, tx);
    commit(*both, tx);
    EXPECT_EQ(server::last_outcome(name + "1"), "done");
    EXPECT_EQ(server::last_outcome(name + "2"), "done");
}

TEST_F(pqxx_test, guards_each_of_several)
{
    for (const auto *const lost : {"1", "2"}) {
        const shedlock::names both{name + lost + "1", name + lost + "2"};
        auto mine = shedlock::try_acquire(db, both, {.at_most = 1min});
        ASSERT_TRUE(mine);
        server::ask("SELECT shedlock_force_release(" + server::literal(name + lost + lost) + ")");
        {
            pqxx::work tx{db};
            EXPECT_THROW(guard(*mine, tx), shedlock::lock_lost) << lost;
        }
        {
            pqxx::work tx{db};
            EXPECT_THROW(shedlock::guard(tx, both, mine->token()), shedlock::lock_lost) << lost;
        }
        pqxx::work tx{db};
        EXPECT_THROW(commit(*mine, tx), shedlock::lock_lost) << lost;
    }
}

TEST_F(pqxx_test, passes_its_options_on)
{
    {
        shedlock::pqxx_options how{2h, 1h}; // without designators, as in C++17
        how.holder = "web-1 \u00e9";
        auto mine = shedlock::try_acquire(db, name, how);
        ASSERT_TRUE(mine);
        EXPECT_EQ(server::holder(name), "web-1 \u00e9");
        EXPECT_GT(server::remaining(name), 1h);
        EXPECT_LE(server::remaining(name), 2h);
    }
    EXPECT_EQ(server::state(name), "kept") << "for at_least";
    const auto other = name + "2";
    EXPECT_TRUE(shedlock::try_acquire(db, other, {.at_most = 1min}));
    EXPECT_EQ(server::ask("SELECT ends_with_session FROM shedlock_locks WHERE name = " + server::literal(other)), "f");
    EXPECT_TRUE(shedlock::try_acquire(db, other, {.at_most = 1min, .ends_with_session = true}));
    EXPECT_EQ(server::ask("SELECT ends_with_session FROM shedlock_locks WHERE name = " + server::literal(other)), "t");
}

TEST_F(pqxx_test, acquires_once_per_tick)
{
    auto first = shedlock::try_acquire(db, name, {.at_most = 1min, .tick = noon});
    ASSERT_TRUE(first);
    EXPECT_EQ(first->tick(), noon);
    first->release(outcome::failed);
    EXPECT_FALSE(shedlock::try_acquire(db, name, {.at_most = 1min, .tick = noon}));
    auto again = shedlock::try_acquire(db, name, {.at_most = 1min, .tick = noon, .retry = true});
    ASSERT_TRUE(again) << "its run has failed";
    again->release();
    EXPECT_FALSE(shedlock::try_acquire(db, name, {.at_most = 1min, .tick = noon, .retry = true}));
    const auto precise = noon + 1us;
    EXPECT_EQ(shedlock::try_acquire(db, name, {.at_most = 1min, .tick = precise})->tick(), precise);
}

TEST_F(pqxx_test, has_the_server_compute_the_tick_of_a_period)
{
    const auto due = [] {
        return server::ask("SELECT (extract(epoch FROM shedlock_tick('1 day', 'Asia/Kolkata')) * 1000000)::bigint");
    };
    const auto before = due();
    shedlock::pqxx_options how{1min};
    how.every = 24h;
    how.zone = "Asia/Kolkata";
    const auto mine = shedlock::try_acquire(db, name, how);
    ASSERT_TRUE(mine && mine->tick());
    const auto tick = std::to_string(mine->tick()->time_since_epoch().count());
    EXPECT_TRUE(tick == before || tick == due()) << tick; // midnight may pass meanwhile
    how.zone.clear();
    const auto in_utc = shedlock::try_acquire(db, name + "2", how);
    EXPECT_EQ(in_utc->tick()->time_since_epoch() % 24h, 0s);
}

TEST_F(pqxx_test, has_the_server_compute_the_tick_of_a_crontab_expression)
{
    shedlock::pqxx_options how{1min};
    how.cron = "30 2 1 1 *";
    how.zone = "Asia/Tokyo";
    how.retry = true;
    auto mine = shedlock::try_acquire(db, name, how);
    ASSERT_TRUE(mine && mine->tick());
    EXPECT_EQ(mine->tick()->time_since_epoch() % 24h, 17h + 30min);
    EXPECT_EQ(std::to_string(mine->tick()->time_since_epoch().count()),
              server::ask("SELECT (extract(epoch FROM shedlock_tick('30 2 1 1 *', 'Asia/Tokyo')) * 1000000)::bigint"));
    mine->release(shedlock::outcome::failed);
    EXPECT_TRUE(shedlock::run(db, name, how, [](pqxx::work &) {}));
    EXPECT_FALSE(shedlock::run(db, name, how, [](pqxx::work &) {}));
    shedlock::pqxx_options in_months{1min};
    in_months.cron = "12 months";
    EXPECT_EQ(std::to_string(shedlock::try_acquire(db, name + "2", in_months)->tick()->time_since_epoch().count()),
              server::ask("SELECT (extract(epoch FROM shedlock_tick('12 months')) * 1000000)::bigint"));
}

TEST_F(pqxx_test, waits_for_another_holder)
{
    const auto theirs = shedlock::try_acquire(db, name, {.at_most = 1min});
    auto waiting = std::async(std::launch::async, [this] {
        pqxx::connection other{server::connection()};
        auto mine = shedlock::acquire(other, name, {.at_most = 1min}, 1h);
        return mine.has_value();
    });
    EXPECT_TRUE(server::comes_true([] {
        return server::ask("SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND state = 'active'"
                           " AND query LIKE '%acquire_token%3600000000 microseconds%'") == "1";
    }));
    server::ask("SELECT shedlock_force_release(" + server::literal(name) + ")");
    EXPECT_TRUE(waiting.get());
}

TEST_F(pqxx_test, has_the_server_check_the_arguments)
{
    const auto acquire = [this](const shedlock::names &what, const shedlock::pqxx_options &how,
                                std::chrono::microseconds wait = {}) {
        return state_of([&] { (void) shedlock::acquire(db, what, how, wait); });
    };
    EXPECT_EQ(acquire(name, {}), "22023") << "without at_most";
    EXPECT_EQ(acquire(name, {-1min}), "22023");
    EXPECT_EQ(acquire(name, {std::chrono::microseconds::min()}).substr(0, 2), "22");
    EXPECT_EQ(acquire(name, {1min, -1min}), "22023");
    EXPECT_EQ(acquire(name, {1min}, -1s), "22023");
    EXPECT_EQ(acquire(name, {.at_most = 1min, .retry = true}), "22023") << "retry without a tick";
    EXPECT_EQ(acquire(name, {.at_most = 1min, .every = -1h}), "22023");
    EXPECT_EQ(acquire(name, {.at_most = 1min, .every = 1h, .zone = "Nowhere"}), "22023");
    EXPECT_EQ(acquire(name, {.at_most = 1min, .cron = "60 * * * *"}), "22023");
    EXPECT_EQ(acquire(name, {.at_most = 1min, .cron = "0 0 31 2 *"}), "22023") << "that day never comes";
    EXPECT_EQ(acquire("", {1min}), "22023");
    EXPECT_EQ(acquire(std::vector<std::string>{}, {1min}), "22023");
    EXPECT_EQ(acquire({name, name + "2", ""}, {1min}), "22023");
    {
        pqxx::work tx{db};
        EXPECT_THROW(shedlock::guard(tx, std::vector<std::string>{}, shedlock::token{1}), shedlock::usage_error);
        EXPECT_EQ(state_of([&] { shedlock::complete(tx, std::vector<std::string>{}, shedlock::token{1}); }), "22023");
    }
    EXPECT_EQ(acquire(std::string(5000, 'x'), {1min}).substr(0, 2), "22");
    EXPECT_EQ(acquire(std::string{"a\0b", 3}, {1min}), "22021") << "PostgreSQL stores no NUL byte";
    EXPECT_EQ(acquire("caf\xe9", {1min}), "22021") << "that is not UTF-8";
    auto mine = shedlock::try_acquire(db, name, {1min});
    EXPECT_EQ(state_of([&] { mine->extend(-1s); }), "22023");
    EXPECT_EQ(state_of([&] { mine->extend(1min, -1s); }), "22023");
    EXPECT_EQ(server::state(name), "held") << "a refused argument changes nothing";
    EXPECT_EQ(acquire(name + "2", {std::chrono::microseconds::max()}).substr(0, 2), acquire(name, {0s}).substr(0, 2));
}

TEST_F(pqxx_test, ignores_no_option)
{
    shedlock::pqxx_options how{1min};
    how.zone = "UTC";
    EXPECT_THROW((void) shedlock::try_acquire(db, name, how), shedlock::usage_error) << "a zone without a schedule";
    how.cron = "@daily";
    how.tick = noon;
    EXPECT_THROW((void) shedlock::try_acquire(db, name, how), shedlock::usage_error) << "a tick and cron";
    how.tick.reset();
    how.every = 1h;
    EXPECT_THROW((void) shedlock::try_acquire(db, name, how), shedlock::usage_error) << "every and cron";
    how.cron.clear();
    how.tick = noon;
    EXPECT_THROW((void) shedlock::try_acquire(db, name, how), shedlock::usage_error) << "a tick and every";
}

TEST_F(pqxx_test, locks_the_same_names_whatever_the_settings_of_the_connection)
{
    const std::string strange = "caf\u00e9 '\u00df\\u0041\\' \"b\" $$ %s \u65e5\u672c";
    for (const auto *const setting :
         {"client_encoding = LATIN1", "client_encoding = SQL_ASCII", "client_encoding = EUC_JP",
          "standard_conforming_strings = off", "backslash_quote = off", "IntervalStyle = sql_standard"}) {
        pqxx::connection odd{server::connection()};
        try {
            set(odd, setting);
        } catch (const pqxx::sql_error &) { // PostgreSQL 19 refuses standard_conforming_strings = off
            continue;
        }
        for (const std::string &one :
             {std::string{"caf\u00e9"}, std::string{"back\\slash"}, std::string{"quo'te"}, strange}) {
            auto mine = shedlock::try_acquire(odd, one, {.at_most = 1min, .holder = one});
            ASSERT_TRUE(mine) << setting;
            EXPECT_EQ(server::state(one), "held") << setting;
            EXPECT_EQ(server::holder(one), one) << setting;
            EXPECT_NO_THROW(mine->extend(2min)) << setting;
            pqxx::work tx{odd};
            EXPECT_NO_THROW(guard(*mine, tx)) << setting;
            EXPECT_NO_THROW(commit(*mine, tx)) << setting;
            EXPECT_EQ(server::last_outcome(one), "done") << setting;
        }
        EXPECT_TRUE(shedlock::run(odd, {"caf\u00e9", strange}, {1min}, [](pqxx::work &) {})) << setting;
    }
}

TEST_F(pqxx_test, finds_the_functions_by_search_path)
{
    ONLY_THE_EXTENSION("it stays where it was put");
    struct moved {
        moved()
        {
            server::ask("CREATE SCHEMA elsewhere");
            server::ask("ALTER EXTENSION shedlock SET SCHEMA elsewhere");
        }
        ~moved()
        {
            server::ask("ALTER EXTENSION shedlock SET SCHEMA public");
            server::ask("DROP SCHEMA elsewhere");
        }
    } const there;
    EXPECT_EQ(state_of([this] { (void) shedlock::try_acquire(db, name, {1min}); }), "42883");
    set(db, "search_path = elsewhere");
    shedlock::pqxx_options how{1min};
    how.every = 1h;
    EXPECT_TRUE(shedlock::run(db, name, how, [](pqxx::work &) {}));
}

// ---- The lock ----

TEST_F(pqxx_test, extends_its_lease)
{
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1h});
    mine->extend(4h);
    EXPECT_GT(server::remaining(name), 3h);
    mine->extend(2h, 1h);
    EXPECT_LE(server::remaining(name), 2h);
    mine->release();
    EXPECT_EQ(server::state(name), "kept");
}

TEST_F(pqxx_test, tells_when_it_is_lost)
{
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    server::ask("SELECT shedlock_force_release(" + server::literal(name) + ")");
    const notices said{db};
    EXPECT_THROW(mine->extend(1min), shedlock::lock_lost);
    EXPECT_NE(said.all.find(name), std::string::npos) << "the server's warning";
    try {
        mine->release();
        FAIL() << "it is lost";
    } catch (const shedlock::lock_lost &lost) {
        EXPECT_EQ(lost.sqlstate(), "SL001");
        EXPECT_NE(std::string{lost.what()}.find(name), std::string::npos) << lost.what();
    }
    EXPECT_NO_THROW(mine->release()) << "it is inert";
}

TEST_F(pqxx_test, is_released_with_a_detail)
{
    const server::kept_history history;
    shedlock::try_acquire(db, name, {.at_most = 1min})->release(outcome::failed, "the disk is full");
    shedlock::try_acquire(db, name, {.at_most = 1min})->release();
    shedlock::try_acquire(db, name, {.at_most = 1min})->release(outcome::done, {"a\0b \xFF €", 9});
    EXPECT_EQ(history.of(name), "failed: the disk is full\ndone\ndone: a\\x00b \\xFF €");
}

TEST_F(pqxx_test, is_inert_once_released)
{
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    mine->release();
    const auto next = shedlock::try_acquire(db, name, {.at_most = 1min});
    EXPECT_EQ(mine->names().list(), std::vector{name});
    EXPECT_NO_THROW(mine->release());
    EXPECT_THROW(mine->extend(1min), shedlock::usage_error);
    EXPECT_THROW((void) mine->guard_statement(), shedlock::usage_error);
    EXPECT_THROW((void) mine->complete_statement(), shedlock::usage_error);
    mine.reset();
    EXPECT_EQ(server::state(name), "held") << "by the next one";
}

TEST_F(pqxx_test, moves)
{
    auto first = shedlock::try_acquire(db, name, {.at_most = 1min});
    auto mine = std::move(*first);
    EXPECT_NO_THROW(first->release());
    EXPECT_THROW(first->extend(1min), shedlock::usage_error);
    first.reset();
    EXPECT_EQ(server::state(name), "held");
    mine = *shedlock::try_acquire(db, name + "2", {.at_most = 1min});
    EXPECT_EQ(server::last_outcome(name), "failed") << "an assignment releases the lock that it replaces";
    EXPECT_EQ(server::state(name + "2"), "held");
    EXPECT_EQ(mine.names().list(), std::vector{name + "2"});
}

TEST_F(pqxx_test, can_be_made_from_a_token)
{
    const auto number =
        std::stoll(server::ask("SELECT shedlock_acquire_token(" + server::literal(name) + ", '1 min')"));
    pqxx_lock mine{db, name, shedlock::token{number}};
    mine.extend(2min);
    mine.release();
    EXPECT_EQ(server::last_outcome(name), "done");
}

TEST_F(pqxx_test, refuses_an_open_transaction)
{
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    pqxx::work open{db};
    EXPECT_THROW((void) shedlock::try_acquire(db, name + "2", {1min}), pqxx::usage_error);
    EXPECT_THROW((void) shedlock::acquire(db, name + "2", {1min}, 1s), pqxx::usage_error);
    EXPECT_THROW((void) shedlock::run(db, name + "2", {1min}, [](pqxx::work &) {}), pqxx::usage_error);
    EXPECT_THROW(mine->extend(1min), pqxx::usage_error);
    EXPECT_THROW(mine->release(), pqxx::usage_error);
    EXPECT_EQ(open.exec("SELECT 1")[0][0].c_str(), std::string{"1"}) << "it goes on";
    open.commit();
    EXPECT_EQ(server::state(name), "held") << "a release that has not happened may be repeated";
    EXPECT_NO_THROW(mine->release());
    EXPECT_EQ(server::last_outcome(name), "done");
}

TEST_F(pqxx_test, reports_what_its_destructor_cannot_do)
{
    const notices said{db};
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    pqxx::work open{db};
    mine.reset();
    EXPECT_NE(said.all.find(name), std::string::npos) << said.all;
    EXPECT_EQ(said.all.back(), '\n');
    EXPECT_EQ(server::state(name), "held") << "until its lease ends";
    open.abort();
}

TEST_F(pqxx_test, reports_that_nobody_released_it)
{
    const notices said{db};
    const std::string told = "lock \"" + name + "\" was destroyed without release(): its run was recorded as failed";
    (void) shedlock::try_acquire(db, name, {1min});
    EXPECT_EQ(said.all, told + '\n');

    shedlock::pqxx_options how{1min};
    how.every = 1h;
    (void) shedlock::try_acquire(db, name + "2", how);
    EXPECT_NE(said.all.find("failed, so with retry its tick is due again\n"), std::string::npos) << said.all;
}

TEST_F(pqxx_test, does_not_report_what_was_not_forgotten)
{
    const notices said{db};
    try {
        const auto mine = shedlock::try_acquire(db, name, {1min});
        throw std::out_of_range{"work"};
    } catch (const std::out_of_range &) {
    }
    {
        auto mine = shedlock::try_acquire(db, name, {1min});
        const auto statement = mine->complete_statement();
    }
    {
        auto mine = shedlock::try_acquire(db, name, {1min});
        auto other = std::move(*mine);
        other.release(outcome::failed);
    }
    {
        auto mine = shedlock::try_acquire(db, name, {1min});
        pqxx::work open{db};
        EXPECT_THROW(mine->release(), pqxx::usage_error);
    }
    EXPECT_EQ(said.all, "");
    EXPECT_EQ(server::last_outcome(name), "failed");
}

TEST_F(pqxx_test, does_not_throw_in_its_destructor_when_its_session_is_gone)
{
    const auto pid = session(db);
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    server::ask("SELECT pg_terminate_backend(" + pid + ", 60000)");
    EXPECT_NO_THROW(mine.reset()); // libpqxx 6.4 connects again
}

// ---- With a transaction ----

TEST_F(pqxx_test, commits_the_work_and_the_release_together)
{
    const table_of_work table;
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    pqxx::work tx{db};
    insert(tx);
    commit(*mine, tx);
    EXPECT_EQ(table.rows(), "1");
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_THROW(mine->extend(1min), shedlock::usage_error) << "it is inert";
    const notices said{db};
    mine.reset();
    EXPECT_EQ(said.all, "");
}

TEST_F(pqxx_test, commits_on_another_connection_and_in_any_real_transaction)
{
    const table_of_work table;
    pqxx::connection other{server::connection()};
    const auto commits = [&](auto &&tx) {
        auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
        insert(tx);
        guard(*mine, tx);
        commit(*mine, tx);
    };
    commits(pqxx::work{other});
    commits(pqxx::transaction<pqxx::isolation_level::serializable>{other});
    commits(pqxx::transaction<pqxx::isolation_level::repeatable_read>{other});
    commits(pqxx::robusttransaction<>{other});
    EXPECT_EQ(table.rows(), "4");
    EXPECT_EQ(server::last_outcome(name), "done");
}

TEST_F(pqxx_test, commits_nothing_when_the_lock_is_lost)
{
    const table_of_work table;
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    pqxx::connection other{server::connection()};
    server::ask("SELECT shedlock_force_release(" + server::literal(name) + ")");
    const auto theirs = shedlock::try_acquire(other, name, {.at_most = 1min});
    {
        pqxx::work tx{db};
        insert(tx);
        try {
            commit(*mine, tx);
            FAIL() << "it is lost";
        } catch (const shedlock::lock_lost &lost) {
            EXPECT_EQ(lost.sqlstate(), "SL001");
            EXPECT_NE(std::string{lost.what()}.find(name), std::string::npos) << lost.what();
        }
    }
    {
        pqxx::work tx{db};
        EXPECT_THROW(guard(*mine, tx), shedlock::lock_lost);
    }
    mine.reset();
    EXPECT_EQ(table.rows(), "0");
    EXPECT_EQ(server::state(name), "held") << "by the other one";
}

namespace {

// A lock of any kind: commit() calls two functions of it.
struct any_lock {
    pqxx_lock &inner;
    bool is_completed = false;
    [[nodiscard]] std::string complete_statement() const { return inner.complete_statement() + "; " + barrier::wait; }
    void completed()
    {
        inner.completed();
        is_completed = true;
    }
};

} // namespace

TEST_F(pqxx_test, reports_a_loss_that_only_the_commit_finds)
{
    ONLY_THE_EXTENSION("no other caller gets the lock between complete and commit");
    const table_of_work table;
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    any_lock any{*mine};
    barrier between;
    auto done = std::async(std::launch::async, [&] {
        pqxx::work tx{db};
        insert(tx);
        shedlock::commit(any, tx);
    });
    EXPECT_TRUE(between.is_waited_for());
    server::ask("SELECT shedlock_force_release(" + server::literal(name) + ")");
    between.open();
    EXPECT_THROW(done.get(), shedlock::lock_lost);
    EXPECT_FALSE(any.is_completed);
    EXPECT_EQ(table.rows(), "0");
}

TEST_F(pqxx_test, leaves_other_errors_to_libpqxx)
{
    auto mine = shedlock::try_acquire(db, name, {.at_most = 1min});
    {
        pqxx::work tx{db};
        tx.exec("CREATE TEMP TABLE once (one int UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP");
        tx.exec("INSERT INTO once VALUES (1), (1)");
        EXPECT_THROW(commit(*mine, tx), pqxx::unique_violation);
    }
    EXPECT_EQ(server::state(name), "held") << "the release was rolled back, too";
    {
        pqxx::work tx{db};
        tx.exec("SET LOCAL ROLE pg_monitor");
        EXPECT_THROW(guard(*mine, tx), pqxx::sql_error) << "it may not use locks";
    }
    mine.reset();
    EXPECT_EQ(server::last_outcome(name), "failed");
}

TEST_F(pqxx_test, acquires_guards_and_completes_in_the_callers_transaction)
{
    {
        pqxx::work tx{db};
        EXPECT_TRUE(shedlock::try_acquire(tx, name, {.at_most = 1min}));
    }
    EXPECT_NE(server::state(name), "held") << "rolled back, it was never acquired";
    std::optional<shedlock::pqxx_grant> granted;
    {
        pqxx::work tx{db};
        shedlock::pqxx_options how{1min};
        how.every = 1h;
        granted = shedlock::try_acquire(tx, name, how);
        tx.commit();
    }
    ASSERT_TRUE(granted);
    const auto id = granted->token;
    EXPECT_EQ(std::to_string(granted->tick.value().time_since_epoch().count()),
              server::ask("SELECT (extract(epoch FROM last_tick) * 1000000)::bigint FROM shedlock_locks WHERE name = " +
                          server::literal(name)))
        << "what the server computed";
    EXPECT_EQ(server::state(name), "held");
    {
        pqxx::work tx{db};
        EXPECT_FALSE(shedlock::try_acquire(tx, name, {.at_most = 1min}));
    }
    {
        pqxx::work tx{db};
        shedlock::guard(tx, name, id);
        tx.commit();
    }
    EXPECT_EQ(server::state(name), "held");
    {
        pqxx::work tx{db};
        shedlock::complete(tx, name, id);
        tx.commit();
    }
    EXPECT_EQ(server::last_outcome(name), "done");
    pqxx::work tx{db};
    EXPECT_THROW(shedlock::complete(tx, name, id), shedlock::lock_lost);
}

// ---- Run ----

TEST_F(pqxx_test, runs_work_once_per_tick)
{
    const table_of_work table;
    shedlock::pqxx_options how{1min};
    how.tick = noon;
    how.retry = true;
    EXPECT_TRUE(shedlock::run(db, name, how, [](pqxx::work &tx) { insert(tx); }));
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_FALSE(shedlock::run(db, name, how, [](pqxx::work &tx) { insert(tx); }));
    EXPECT_EQ(table.rows(), "1");
}

TEST_F(pqxx_test, runs_work_of_every_shape)
{
    std::unique_ptr<int> moved = std::make_unique<int>(1);
    EXPECT_TRUE(shedlock::run(db, name, {1min}, [moved = std::move(moved)](pqxx::work &) mutable { *moved = 2; }));
    EXPECT_TRUE(shedlock::run(db, name, {1min}, [this](pqxx::work &tx, const pqxx_lock &lock) {
        EXPECT_EQ(lock.names().list(), std::vector{name});
        guard(lock, tx);
    }));
    EXPECT_TRUE(shedlock::run(db, name, {1min}, [](auto &tx) { tx.exec("SELECT 1"); }));
    EXPECT_TRUE(shedlock::run<pqxx::transaction<pqxx::isolation_level::serializable>>(db, name, {1min}, [](auto &tx) {
        EXPECT_EQ(tx.exec("SHOW transaction_isolation")[0][0].c_str(), std::string{"serializable"});
    }));
    EXPECT_TRUE(shedlock::run<pqxx::robusttransaction<>>(db, name, {1min}, [](pqxx::robusttransaction<> &) {}));
    EXPECT_EQ(server::last_outcome(name), "done");
}

TEST_F(pqxx_test, rolls_back_work_that_throws)
{
    const table_of_work table;
    struct trouble {};
    EXPECT_THROW(shedlock::run(db, name, {1min},
                               [](pqxx::work &tx) {
                                   insert(tx);
                                   throw trouble{};
                               }),
                 trouble);
    EXPECT_EQ(table.rows(), "0");
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(server::last_outcome(name), "failed");
}

TEST_F(pqxx_test, keeps_why_a_run_failed)
{
    const server::kept_history history;
    const notices said{db};
    EXPECT_TRUE(shedlock::run(db, name, {1min}, [](pqxx::work &) { return outcome::failed; }));
    EXPECT_THROW(
        shedlock::run(db, name, {1min}, [](pqxx::work &) { throw std::runtime_error{"no \xFF file\nnor folder"}; }),
        std::runtime_error);
    EXPECT_THROW(shedlock::run(db, name, {1min}, [](pqxx::work &) { throw 1; }), int);
    EXPECT_THROW(shedlock::run(db, name, {1min}, [](pqxx::work &tx) { tx.exec("SELECT 1 / 0"); }), pqxx::sql_error);
    EXPECT_THROW(shedlock::run(db, name, {1min},
                               [](pqxx::work &tx) {
                                   tx.exec(
                                       "CREATE TEMPORARY TABLE one (number int UNIQUE DEFERRABLE INITIALLY DEFERRED)");
                                   tx.exec("INSERT INTO one VALUES (1), (1)");
                               }),
                 pqxx::sql_error);
    EXPECT_TRUE(shedlock::run(db, name, {1min}, [](pqxx::work &) {}));
    EXPECT_EQ(history.of(name), "failed\n"
                                "failed: no \\xFF file\n"
                                "failed\n"
                                "failed: ERROR:  division by zero\n"
                                "failed: ERROR:  duplicate key value violates unique constraint \"one_number_key\"\n"
                                "done");
    EXPECT_EQ(said.all, "");
}

#if PQXX_VERSION_MAJOR < 7
TEST_F(pqxx_test, does_not_call_the_work_when_the_lock_was_lost_before)
{
    odd_work::at_begin = [this] { server::ask("SELECT shedlock_force_release(" + server::literal(name) + ")"); };
    EXPECT_THROW(shedlock::run<odd_work>(db, name, {1min}, [](odd_work &) { FAIL() << "it is lost"; }),
                 shedlock::lock_lost);
    odd_work::at_begin = {};
}
#endif

TEST_F(pqxx_test, reports_a_loss_that_the_work_finds)
{
    const auto lost = shedlock::try_acquire(db, name + "2", {1min});
    server::ask("SELECT shedlock_force_release(" + server::literal(name + "2") + ")");
    try {
        shedlock::run(db, name, {1min}, [&](pqxx::work &tx) { tx.exec(lost->guard_statement()); });
        FAIL() << "it is lost";
    } catch (const shedlock::lock_lost &failure) {
        EXPECT_THROW(std::rethrow_if_nested(failure), pqxx::sql_error);
    }
    EXPECT_EQ(server::last_outcome(name), "failed");
}

TEST_F(pqxx_test, runs_work_that_says_how_it_ended)
{
    const table_of_work table;
    const notices said{db};
    EXPECT_TRUE(shedlock::run(db, name, {1min}, [](pqxx::work &tx) {
        insert(tx);
        return outcome::failed;
    }));
    EXPECT_EQ(table.rows(), "0");
    EXPECT_EQ(server::last_outcome(name), "failed");
    EXPECT_TRUE(shedlock::run(db, name, {1min}, [](pqxx::work &tx) {
        insert(tx);
        return outcome::done;
    }));
    EXPECT_EQ(table.rows(), "1");
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_EQ(said.all, "");
}

TEST_F(pqxx_test, begins_no_run_later_than_start_within_after_its_tick)
{
    shedlock::pqxx_options how{1min};
    how.tick = noon;
    how.start_within = 1h; // that noon is long ago
    EXPECT_FALSE(shedlock::run(db, name, how, [](pqxx::work &tx) { insert(tx); }));
    how.start_within = 24h * 366 * 1000;
    const table_of_work table;
    EXPECT_TRUE(shedlock::run(db, name, how, [](pqxx::work &tx) { insert(tx); }));
}

// Whoever commits the work releases the lock as done.
TEST_F(pqxx_test, does_not_repeat_work_that_has_committed_itself)
{
    const table_of_work table;
    shedlock::pqxx_options how{1min};
    how.tick = noon;
    how.retry = true;
    const auto runs = [&](const auto &work) {
        const bool has_run = shedlock::run(db, name, how, work);
        EXPECT_EQ(server::last_outcome(name), "done");
        EXPECT_FALSE(shedlock::run(db, name, how, work)) << "the tick has had its run";
        *how.tick += 1h;
        return has_run;
    };
    EXPECT_TRUE(runs([](pqxx::work &tx) {
        insert(tx);
        tx.commit();
    }));
    EXPECT_TRUE(runs([](pqxx::work &tx) {
        insert(tx);
        tx.exec("COMMIT");
    }));
    EXPECT_TRUE(runs([](pqxx::work &tx) {
        insert(tx);
        tx.exec("COMMIT");
        tx.exec("BEGIN");
    }));
    EXPECT_TRUE(runs([](pqxx::work &tx) {
        insert(tx);
        tx.commit();
        return outcome::failed; // too late
    }));
    pqxx::connection brief{server::connection()}; // is lost after the commit
    EXPECT_TRUE(shedlock::run(brief, name, how, [](pqxx::work &tx) {
        insert(tx);
        const std::string session = tx.exec("SELECT pg_backend_pid()")[0][0].c_str();
        tx.commit();
        server::ask("SELECT pg_terminate_backend(" + session + ", 60000)");
    }));
    *how.tick += 1h;
    struct trouble {};
    EXPECT_THROW(runs([](pqxx::work &tx) {
                     insert(tx);
                     tx.commit();
                     throw trouble{};
                 }),
                 trouble);
    EXPECT_FALSE(shedlock::run(db, name, how, [](pqxx::work &tx) { insert(tx); }));
    EXPECT_EQ(table.rows(), "6");
    EXPECT_EQ(server::last_outcome(name), "done");
}

TEST_F(pqxx_test, refuses_work_that_ends_its_transaction_otherwise)
{
    const table_of_work table;
    const auto refuses = [&](const auto &work, bool libpqxx_knows) {
        try {
            shedlock::run(db, name, {1min}, [&](pqxx::work &tx) {
                insert(tx);
                work(tx);
            });
            ADD_FAILURE() << "the work is not committed";
        } catch (const shedlock::usage_error &failure) {
            EXPECT_NE(std::string{failure.what()}.find("run"), std::string::npos) << failure.what();
            EXPECT_EQ(dynamic_cast<const std::nested_exception *>(&failure) != nullptr, libpqxx_knows);
            if (libpqxx_knows) {
                EXPECT_THROW(std::rethrow_if_nested(failure), pqxx::usage_error);
            }
        }
        EXPECT_EQ(table.rows(), "0");
        EXPECT_EQ(server::state(name), "free");
        EXPECT_EQ(server::last_outcome(name), "failed");
    };
    refuses([](pqxx::work &tx) { tx.abort(); }, true);
#if PQXX_VERSION_MAJOR >= 7 // an earlier one has aborted it
    const auto swallow_and_commit = [](pqxx::work &tx) {
        EXPECT_THROW(tx.exec("SELECT 1 / 0"), pqxx::sql_error);
        tx.commit(); // the server says ROLLBACK, which libpqxx does not see
    };
    refuses(swallow_and_commit, true);
#endif
    refuses([](pqxx::work &tx) { tx.exec("ROLLBACK"); }, false);
    refuses([](pqxx::work &tx) { tx.exec("ROLLBACK; BEGIN"); }, false);
}

TEST_F(pqxx_test, releases_misused_work_with_a_detail)
{
    const server::kept_history history;
    std::string told;
    for (const bool libpqxx_knows : {true, false})
        try {
            shedlock::run(db, name, {1min}, [&](pqxx::work &tx) {
                if (libpqxx_knows)
                    tx.abort();
                else
                    tx.exec("ROLLBACK");
            });
            ADD_FAILURE() << "the work is not committed";
        } catch (const shedlock::usage_error &failure) {
            told += (told.empty() ? "failed: " : "\nfailed: ") + std::string{failure.what()};
        }
    EXPECT_EQ(history.of(name), told);
}

#if PQXX_VERSION_MAJOR < 7
TEST_F(pqxx_test, refuses_work_that_leaves_a_stream_open)
{
    EXPECT_THROW(shedlock::run<odd_work>(db, name, {1min},
                                         [](odd_work &tx) {
                                             tx.stream.emplace(tx);
                                             tx.stream->insert("SELECT 1");
                                         }),
                 shedlock::usage_error);
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(server::last_outcome(name), "failed");
}
#endif

TEST_F(pqxx_test, does_not_commit_work_that_has_swallowed_an_error)
{
    EXPECT_ANY_THROW(shedlock::run(db, name, {1min}, [](pqxx::work &tx) {
        try {
            tx.exec("SELECT 1 / 0");
        } catch (const pqxx::sql_error &) {
        }
    })) << "libpqxx 6 has aborted it, later ones find it aborted";
    EXPECT_EQ(server::last_outcome(name), "failed");
}

#if PQXX_VERSION_MAJOR < 7
TEST_F(pqxx_test, is_in_doubt_when_a_commit_returns_without_a_connection)
{
    odd_work::is_disconnected_by_its_commit = true;
    pqxx::connection other{server::connection()};
    EXPECT_THROW(shedlock::run<odd_work>(other, name, {1min}, [](odd_work &) {}), shedlock::in_doubt);
    odd_work::is_disconnected_by_its_commit = false;
}
#endif

TEST_F(pqxx_test, ends_the_idle_session_of_a_run_that_has_its_row_locked)
{
    const auto limit = [this] {
        std::string shown;
        shedlock::run(db, name, {1min}, [&](pqxx::work &tx) {
            shown = tx.exec("SHOW idle_in_transaction_session_timeout")[0][0].c_str();
        });
        return shown;
    };
    EXPECT_EQ(limit(), server::is_portable() ? "60001ms" : "0");
    set(db, "idle_in_transaction_session_timeout = '59s'");
    EXPECT_EQ(limit(), "59s");
    set(db, "idle_in_transaction_session_timeout = '61s'");
    EXPECT_EQ(limit(), server::is_portable() ? "60001ms" : "61s");
}

TEST_F(pqxx_test, is_lost_when_its_lease_has_ended_before_its_work_says_failed)
{
    ONLY_THE_EXTENSION("the row is locked");
    for (const bool is_taken : {false, true})
        EXPECT_THROW(shedlock::run(db, name, {1min},
                                   [&](pqxx::work &) {
                                       server::end_lease(name);
                                       if (is_taken)
                                           server::ask("SELECT shedlock_acquire(" + server::literal(name) +
                                                       ", '1 min')");
                                       return outcome::failed;
                                   }),
                     shedlock::lock_lost);
}

TEST_F(pqxx_test, rolls_back_work_whose_lock_is_lost)
{
    ONLY_THE_EXTENSION("the row is locked during the work");
    const table_of_work table;
    EXPECT_THROW(shedlock::run(db, name, {1min},
                               [this](pqxx::work &tx) {
                                   insert(tx);
                                   server::ask("SELECT shedlock_force_release(" + server::literal(name) + ")");
                               }),
                 shedlock::lock_lost);
    EXPECT_EQ(table.rows(), "0");
    EXPECT_NE(server::last_outcome(name), "done");
}

TEST_F(pqxx_test, ends_a_run_with_its_session_by_default)
{
    const auto ends = [this] {
        return server::ask("SELECT ends_with_session FROM shedlock_locks WHERE name = " + server::literal(name));
    };
    shedlock::pqxx_options how{1min};
    EXPECT_TRUE(shedlock::run(db, name, how, [&](pqxx::work &) { EXPECT_EQ(ends(), "t"); }));
    how.ends_with_session = false;
    EXPECT_TRUE(shedlock::run(db, name, how, [&](pqxx::work &) { EXPECT_EQ(ends(), "f"); }));
    how.ends_with_session = true;
    pqxx::connection other{server::connection()};
    const auto pid = session(other);
    const auto theirs = shedlock::try_acquire(other, name, how);
    ASSERT_TRUE(theirs);
    server::ask("SELECT pg_terminate_backend(" + pid + ", 60000)");
    EXPECT_TRUE(shedlock::try_acquire(db, name, {1min})) << "its session is gone";
}
