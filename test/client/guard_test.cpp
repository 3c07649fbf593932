// The guard: it needs nothing but the caller's transaction.
#include "fixture.hpp"
#include "proxy.hpp"

#include <future>

using guard_test = with_server;

namespace {

constexpr char const *others_wait = "from the guard to the commit nobody else can have the lock";

} // namespace

TEST_F(guard_test, covers_a_transaction_until_its_commit)
{
    auto const mine = locks.try_acquire({name + " a", name + " b"}, {.at_most = 1min});
    pqxx::connection connection{server::connection()};
    {
        pqxx::work transaction{connection};
        mine->guard(transaction);
        transaction.commit();
    }
    ONLY_THE_EXTENSION(others_wait);
    pqxx::work transaction{connection};
    mine->guard(transaction);
    locks.force_release(name + " b");
    try {
        transaction.commit();
        FAIL() << "somebody else has acquired it";
    } catch (pqxx::sql_error const &lost) {
        EXPECT_EQ(lost.sqlstate(), "SL001");
    }
}

TEST_F(guard_test, fails_at_once_when_the_lock_is_lost)
{
    auto const mine = locks.try_acquire(name, {.at_most = 1min});
    locks.force_release(name);
    pqxx::connection connection{server::connection()};
    pqxx::work transaction{connection};
    EXPECT_THROW(mine->guard(transaction), shedlock::lock_lost);
}

namespace {

// Does the work that tells whether a guarded transaction has committed.
constexpr char const *work = "INSERT INTO guarded DEFAULT VALUES";

class table_of_work {
public:
    table_of_work() { server::ask("CREATE TABLE guarded (at timestamptz DEFAULT now())"); }
    ~table_of_work() { server::ask("DROP TABLE guarded"); }
    table_of_work(table_of_work const &) = delete;
    table_of_work &operator=(table_of_work const &) = delete;
    [[nodiscard]] std::string rows() const { return server::ask("SELECT count(*) FROM guarded"); }
};

// Somebody else has the lock before this commits.
struct overtaken {
    pqxx::work &inner;
    std::string name;
    void exec(std::string const &sql) { inner.exec(sql); }
    void commit()
    {
        server::ask("SELECT shedlock_force_release('" + name + "')");
        inner.commit();
    }
};

} // namespace

TEST_F(guard_test, needs_no_connection_of_the_client)
{
    proxy network;
    auto through = client(network.connection(), 2s);
    auto const mine = through.try_acquire(name, {.at_most = 1min});
    pqxx::connection connection{server::connection()};
    network.cut();
    network.refuse_newcomers();
    EXPECT_THROW((void) through.try_acquire(name, {.at_most = 1min}), shedlock::connection_error);
    pqxx::work transaction{connection};
    EXPECT_NO_THROW(mine->guard(transaction));
    EXPECT_NO_THROW(mine->commit(transaction));
}

TEST_F(guard_test, does_not_wait_for_other_calls_of_the_client)
{
    proxy network;
    auto through = client(network.connection(), 1min);
    auto mine = through.try_acquire(name, {.at_most = 1min});
    pqxx::connection connection{server::connection()};
    network.hold_replies();
    auto silent = std::async(std::launch::async, [&] { EXPECT_TRUE(through.force_release(name)); });
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "free"; })) << "only the reply is on its way";
    pqxx::work transaction{connection};
    EXPECT_THROW(mine->guard(transaction), shedlock::lock_lost);
    EXPECT_EQ(silent.wait_for(0s), std::future_status::timeout);
    network.let_go();
}

TEST_F(guard_test, takes_any_transaction)
{
    auto const mine = locks.try_acquire(name, {.at_most = 1min});
    pqxx::connection connection{server::connection()};
    {
        pqxx::transaction<pqxx::isolation_level::serializable> strict{connection};
        EXPECT_NO_THROW(mine->commit(strict));
    }
    ONLY_THE_EXTENSION(others_wait);
    {
        pqxx::work outer{connection};
        pqxx::subtransaction inner{outer};
        EXPECT_NO_THROW(mine->commit(inner));
        locks.force_release(name);
        pqxx::transaction_base &base = outer;
        EXPECT_THROW(mine->commit(base), shedlock::lock_lost) << "and the subtransaction was guarded to this end";
    }
}

// From PostgreSQL 19 on standard_conforming_strings is always on.
bool can_be(char const *setting)
{
    try {
        server::ask(std::string{"SET "} + setting);
        return true;
    } catch (pqxx::sql_error const &) {
        return false;
    }
}

TEST_F(guard_test, finds_the_names_whatever_the_settings_of_the_connection)
{
    auto const strange = name + " 'ß\\u0041\\' \"b\" $$ %s 日本";
    auto const mine = locks.try_acquire({strange, name + " {b,\\}", name}, {.at_most = 1min});
    ASSERT_TRUE(mine);
    server::ask("CREATE SCHEMA evil");
    server::ask("CREATE FUNCTION evil.shedlock_guard_token(text, bigint) RETURNS void LANGUAGE sql AS ''");
    for (auto const *const setting :
         {"client_encoding = LATIN1", "client_encoding = SQL_ASCII", "client_encoding = EUC_JP",
          "standard_conforming_strings = off", "search_path = evil, pg_catalog, public", "backslash_quote = off"}) {
        if (!can_be(setting))
            continue;
        pqxx::connection connection{server::connection()};
        pqxx::work transaction{connection};
        transaction.exec(std::string{"SET LOCAL "} + setting);
        EXPECT_NO_THROW(mine->commit(transaction)) << setting;
    }
    locks.force_release(name);
    for (auto const *const setting :
         {"client_encoding = LATIN1", "standard_conforming_strings = off", "search_path = evil, pg_catalog, public"}) {
        if (!can_be(setting))
            continue;
        pqxx::connection connection{server::connection()};
        pqxx::work transaction{connection};
        transaction.exec(std::string{"SET LOCAL "} + setting);
        EXPECT_THROW(mine->guard(transaction), shedlock::lock_lost) << setting;
    }
    server::ask("DROP SCHEMA evil CASCADE");
}

TEST_F(guard_test, finds_the_extension_when_it_has_moved)
{
    ONLY_THE_EXTENSION("it stays where it was put");
    auto const mine = locks.try_acquire(name, {.at_most = 1min});
    server::ask("CREATE SCHEMA \"else where\"");
    server::ask("ALTER EXTENSION shedlock SET SCHEMA \"else where\"");
    EXPECT_FALSE(locks.try_acquire(name, {.at_most = 1min})) << "from now on the client knows";
    pqxx::connection connection{server::connection()};
    pqxx::work transaction{connection};
    EXPECT_NO_THROW(mine->commit(transaction));
    server::ask("ALTER EXTENSION shedlock SET SCHEMA public");
    server::ask("DROP SCHEMA \"else where\"");
}

TEST_F(guard_test, is_a_statement_for_any_driver)
{
    auto const mine = locks.try_acquire({name, name + " '2'"}, {.at_most = 1min});
    auto const statement = mine->guard_statement();
    EXPECT_EQ(statement.find('\n'), std::string::npos) << "one line, for logs: " << statement;
    table_of_work const table;
    EXPECT_NO_THROW(server::ask(std::string{"BEGIN; "} + work + "; " + statement + "; COMMIT"));
    EXPECT_EQ(table.rows(), "1");
    auto const in_between =
        std::string{"BEGIN; "} + work + "; " + statement + "; SELECT shedlock_force_release('" + name + "'); COMMIT";
    auto const state = [](std::string const &sql) -> std::string {
        try {
            server::ask(sql);
        } catch (pqxx::sql_error const &failure) {
            return std::string{failure.sqlstate()};
        }
        return "";
    };
    if (!server::is_portable()) { // where nobody else comes in between
        EXPECT_EQ(state(in_between), "SL001");
    }
    locks.force_release(name);
    EXPECT_EQ(state(std::string{"BEGIN; "} + work + "; " + statement + "; COMMIT"), "SL001");
    EXPECT_EQ(table.rows(), "1");
}

// One condition, one type.

TEST_F(guard_test, commits_only_what_is_still_ours)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    table_of_work const table;
    pqxx::connection connection{server::connection()};
    {
        pqxx::work transaction{connection};
        transaction.exec(work);
        mine->commit(transaction);
    }
    EXPECT_EQ(table.rows(), "1");
    ONLY_THE_EXTENSION(others_wait);
    {
        pqxx::work transaction{connection};
        transaction.exec(work);
        overtaken late{transaction, name};
        try {
            mine->commit(late);
            FAIL() << "lost between guard and commit";
        } catch (shedlock::lock_lost const &lost) {
            EXPECT_EQ(lost.sqlstate(), "SL001");
            EXPECT_NE(std::string{lost.what()}.find(name), std::string::npos) << lost.what();
        }
    }
    EXPECT_EQ(table.rows(), "1") << "nothing was committed";
}

TEST_F(guard_test, leaves_other_errors_to_libpqxx)
{
    auto const mine = locks.try_acquire(name, {.at_most = 1min});
    pqxx::connection connection{server::connection()};
    {
        pqxx::work transaction{connection};
        transaction.exec("SET LOCAL ROLE pg_monitor");
        EXPECT_THROW(mine->guard(transaction), pqxx::sql_error) << "it may not use locks";
    }
    pqxx::work transaction{connection};
    transaction.exec("CREATE TEMP TABLE once (one int UNIQUE DEFERRABLE INITIALLY DEFERRED) ON COMMIT DROP");
    transaction.exec("INSERT INTO once VALUES (1), (1)");
    EXPECT_THROW(mine->commit(transaction), pqxx::unique_violation);
}
