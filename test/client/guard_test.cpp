// The guard and complete statements, which need nothing but the application's transaction, and the functions of
// pqxx.hpp that execute them. (pqxx_test tests more of those functions.)
#include "fixture.hpp"
#include "proxy.hpp"

#include <shedlock/pqxx.hpp>

#include <future>

using guard_test = with_server;

namespace {

constexpr const char *others_wait = "from the guard to the commit no other caller can have the lock";

// Lost already: the statement itself fails.
void expect_lost(pqxx::work &transaction, const std::string &statement, const char *when)
{
    try {
        transaction.exec(statement);
        FAIL() << when;
    } catch (const pqxx::sql_error &lost) {
        EXPECT_EQ(lost.sqlstate(), "SL001") << when;
    }
}

} // namespace

TEST_F(guard_test, covers_a_transaction_until_its_commit)
{
    const auto mine = locks.try_acquire({name + " a", name + " b"}, {.at_most = 1min});
    pqxx::connection connection{server::connection()};
    {
        pqxx::work transaction{connection};
        transaction.exec(mine->guard_statement());
        transaction.commit();
    }
    ONLY_THE_EXTENSION(others_wait);
    pqxx::work transaction{connection};
    transaction.exec(mine->guard_statement());
    locks.force_release(name + " b");
    try {
        transaction.commit();
        FAIL() << "one of them was released by force";
    } catch (const pqxx::sql_error &lost) {
        EXPECT_EQ(lost.sqlstate(), "SL001");
    }
}

TEST_F(guard_test, fails_at_once_when_the_lock_is_lost)
{
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    locks.force_release(name);
    pqxx::connection connection{server::connection()};
    pqxx::work transaction{connection};
    expect_lost(transaction, mine->guard_statement(), "the guard");
    transaction.abort();
    pqxx::work another{connection};
    expect_lost(another, mine->complete_statement(), "the completion");
}

TEST_F(guard_test, needs_no_connection_of_the_client)
{
    proxy network;
    auto through = client(network.connection());
    auto mine = through.try_acquire(name, {.at_most = 1min});
    pqxx::connection connection{server::connection()};
    network.cut();
    network.refuse_newcomers();
    auto acquiring = std::async(std::launch::async, [&] { return through.try_acquire(name, {.at_most = 1min}); });
    EXPECT_THROW((void) as_time_passes(acquiring), shedlock::connection_error);
    pqxx::work transaction{connection};
    transaction.exec(mine->complete_statement());
    transaction.commit();
    mine->completed();
    EXPECT_EQ(server::last_outcome(name), "done");
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
    expect_lost(transaction, mine->complete_statement(), "released by force");
    EXPECT_EQ(silent.wait_for(0s), std::future_status::timeout);
    network.let_go();
}

// From PostgreSQL 19 on standard_conforming_strings is always on.
bool can_be(const char *setting)
{
    try {
        server::ask(std::string{"SET "} + setting);
        return true;
    } catch (const pqxx::sql_error &) {
        return false;
    }
}

TEST_F(guard_test, finds_the_names_whatever_the_settings_of_the_connection)
{
    const auto strange = name + " 'ß\\u0041\\' \"b\" $$ %s 日本";
    server::ask("CREATE SCHEMA evil");
    for (const auto *const function :
         {"guard_token(text, bigint)", "complete_token(text, bigint)", "complete_token(text[], bigint)"})
        server::ask(std::string{"CREATE FUNCTION evil.shedlock_"} + function + " RETURNS void LANGUAGE sql AS ''");
    std::optional<shedlock::lock> mine;
    for (const auto *const setting :
         {"client_encoding = LATIN1", "client_encoding = SQL_ASCII", "client_encoding = EUC_JP",
          "standard_conforming_strings = off", "search_path = evil, pg_catalog, public", "backslash_quote = off"}) {
        if (!can_be(setting))
            continue;
        mine = locks.try_acquire({strange, name + " {b,\\}", name}, {.at_most = 1min});
        ASSERT_TRUE(mine) << setting;
        for (const auto &statement : {mine->guard_statement(), mine->complete_statement()}) {
            pqxx::connection connection{server::connection()};
            pqxx::work transaction{connection};
            transaction.exec(std::string{"SET LOCAL "} + setting);
            EXPECT_NO_THROW(transaction.exec(statement)) << setting;
            EXPECT_NO_THROW(transaction.commit()) << setting;
        }
        EXPECT_EQ(server::state(strange) + server::state(name), "freefree") << setting;
        EXPECT_EQ(server::last_outcome(strange), "done");
    }
    mine = locks.try_acquire({strange, name}, {.at_most = 1min});
    locks.force_release(name);
    for (const auto *const setting :
         {"client_encoding = LATIN1", "standard_conforming_strings = off", "search_path = evil, pg_catalog, public"}) {
        if (!can_be(setting))
            continue;
        for (const auto &statement : {mine->guard_statement(), mine->complete_statement()}) {
            pqxx::connection connection{server::connection()};
            pqxx::work transaction{connection};
            transaction.exec(std::string{"SET LOCAL "} + setting);
            expect_lost(transaction, statement, setting);
        }
    }
    server::ask("DROP SCHEMA evil CASCADE");
}

TEST_F(guard_test, finds_the_extension_when_it_has_moved)
{
    ONLY_THE_EXTENSION("it stays where it was put");
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    server::ask("CREATE SCHEMA \"else where\"");
    server::ask("ALTER EXTENSION shedlock SET SCHEMA \"else where\"");
    EXPECT_FALSE(locks.try_acquire(name, {.at_most = 1min})) << "from now on the client knows";
    for (const auto &statement : {mine->guard_statement(), mine->complete_statement()})
        EXPECT_NO_THROW(server::ask(statement)) << statement;
    mine->completed();
    server::ask("ALTER EXTENSION shedlock SET SCHEMA public");
    server::ask("DROP SCHEMA \"else where\"");
}

TEST_F(guard_test, is_a_statement_for_any_driver)
{
    const auto mine = locks.try_acquire({name, name + " '2'"}, {.at_most = 1min});
    const auto statement = mine->guard_statement();
    EXPECT_EQ(statement.find('\n'), std::string::npos) << "one line, for logs: " << statement;
    const table_of_work table;
    EXPECT_EQ(table.do_with(statement), "");
    EXPECT_EQ(table.rows(), "1");
    if (!server::is_portable()) { // in the portable edition no other caller can come in between
        EXPECT_EQ(table.do_with(statement + "; SELECT shedlock_force_release('" + name + "')"), "SL001");
    }
    locks.force_release(name);
    EXPECT_EQ(table.do_with(statement), "SL001");
    EXPECT_EQ(table.rows(), "1");
}

// By guard(lock, tx) and commit(lock, tx).

namespace {

// Lost between the statement and the commit.
struct overtaken {
    shedlock::lock &mine;

    [[nodiscard]] std::string complete_statement() const
    {
        return mine.complete_statement() + "; SELECT shedlock_force_release('" + mine.names().list().front() + "')";
    }
    static void completed() { FAIL() << "it has not committed"; }
};

} // namespace

TEST_F(guard_test, commits_the_work_and_the_release_together)
{
    const table_of_work table;
    pqxx::connection connection{server::connection()};
    {
        auto mine = locks.try_acquire({name, name + " 2"}, {.at_most = 1min, .keep_alive = true});
        pqxx::work first{connection};
        first.exec(table.work);
        shedlock::guard(*mine, first);
        first.commit();
        EXPECT_EQ(server::state(name), "held");
        pqxx::transaction<pqxx::isolation_level::serializable> strict{connection};
        strict.exec(table.work);
        shedlock::commit(*mine, strict);
        EXPECT_FALSE(mine->held());
        EXPECT_NO_THROW(mine->release()) << "it is inert";
    }
    EXPECT_EQ(table.rows(), "2");
    EXPECT_EQ(server::state(name) + server::state(name + " 2"), "freefree");
    EXPECT_EQ(server::last_outcome(name) + server::last_outcome(name + " 2"), "donedone");
    EXPECT_TRUE(locks.run(name, {.at_most = 1min}, [&](shedlock::lock &lock) {
        pqxx::work transaction{connection};
        transaction.exec(table.work);
        shedlock::commit(lock, transaction);
    }));
    EXPECT_EQ(table.rows(), "3");
    EXPECT_EQ(server::last_outcome(name), "done");
    EXPECT_EQ(heard.texts(), "");
}

TEST_F(guard_test, commits_nothing_when_the_lock_is_lost)
{
    const table_of_work table;
    pqxx::connection connection{server::connection()};
    auto mine = locks.try_acquire(name, {.at_most = 1min});
    locks.force_release(name);
    {
        pqxx::work transaction{connection};
        EXPECT_THROW(shedlock::guard(*mine, transaction), shedlock::lock_lost);
    }
    {
        pqxx::work transaction{connection};
        transaction.exec(table.work);
        EXPECT_THROW(shedlock::commit(*mine, transaction), shedlock::lock_lost);
    }
    EXPECT_THROW(mine->release(), shedlock::lock_lost) << "it was not completed, so it is not inert";
    if (!server::is_portable()) { // in the portable edition no other caller can come in between
        mine = locks.try_acquire(name, {.at_most = 1min});
        overtaken late{*mine};
        pqxx::work transaction{connection};
        transaction.exec(table.work);
        try {
            shedlock::commit(late, transaction);
            FAIL() << "lost before the commit";
        } catch (const shedlock::lock_lost &lost) {
            EXPECT_EQ(lost.sqlstate(), "SL001");
            EXPECT_NE(std::string{lost.what()}.find(name), std::string::npos) << lost.what();
        }
    }
    EXPECT_EQ(table.rows(), "0");
}
