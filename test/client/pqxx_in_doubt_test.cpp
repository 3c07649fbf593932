// The wrapper for libpqxx: commits that may or may not have happened.
#include "proxy.hpp"
#include "server.hpp"

#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <shedlock/pqxx.hpp>

using namespace std::chrono_literals;

namespace {

// A table whose rows do something when they are committed.
class table_of_work {
public:
    explicit table_of_work(const std::string &at_commit)
    {
        server::ask("CREATE TABLE doubtful (at timestamptz DEFAULT now())");
        server::ask("CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS "
                    "$$BEGIN PERFORM " +
                    at_commit + "; RETURN NULL; END$$");
        server::ask("CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON doubtful DEFERRABLE INITIALLY DEFERRED"
                    " FOR EACH ROW EXECUTE FUNCTION at_commit()");
    }
    ~table_of_work() { server::ask("DROP TABLE doubtful; DROP FUNCTION at_commit()"); }
    table_of_work(const table_of_work &) = delete;
    table_of_work &operator=(const table_of_work &) = delete;
    [[nodiscard]] std::string rows() const { return server::ask("SELECT count(*) FROM doubtful"); }
    void do_no_more() const { server::ask("ALTER TABLE doubtful DISABLE TRIGGER at_commit"); }
};

void work(pqxx::work &tx)
{
    tx.exec("INSERT INTO doubtful DEFAULT VALUES");
}

class pqxx_in_doubt_test : public testing::Test {
protected:
    const std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    const shedlock::pqxx_options once{
        .at_most = 1min, .tick = shedlock::instant{std::chrono::seconds{1577880000}}, .retry = true};
};

} // namespace

TEST_F(pqxx_in_doubt_test, the_tick_is_refused_if_it_was_committed)
{
    const table_of_work table{"pg_advisory_xact_lock_shared(31)"};
    pqxx::connection other; // not through a pooler
    pqxx::nontransaction barrier{other};
    barrier.exec("SELECT pg_advisory_lock(31)");
    proxy network;
    auto running = std::async(std::launch::async, [&] {
        pqxx::connection db{network.connection()};
        shedlock::run(db, name, once, work);
    });
    EXPECT_TRUE(server::comes_true([] {
        return server::ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted") == "1";
    }));
    network.hold_replies();
    network.refuse_newcomers();
    barrier.exec("SELECT pg_advisory_unlock(31)");
    EXPECT_TRUE(server::comes_true([&] { return table.rows() == "1"; }));
    network.cut();
    EXPECT_THROW(running.get(), shedlock::in_doubt);
    EXPECT_EQ(server::last_outcome(name), "done");
    table.do_no_more();
    pqxx::connection db{server::connection()};
    EXPECT_FALSE(shedlock::run(db, name, once, work)) << "it has had its run";
    EXPECT_EQ(table.rows(), "1");
}

TEST_F(pqxx_in_doubt_test, the_tick_is_due_again_if_it_was_not_committed)
{
    const table_of_work table{"pg_terminate_backend(pg_backend_pid())"};
    {
        pqxx::connection db{server::connection()};
        EXPECT_THROW(shedlock::run(db, name, once, work), shedlock::in_doubt);
    }
    EXPECT_EQ(table.rows(), "0");
    table.do_no_more();
    EXPECT_TRUE(server::comes_true([&] { return server::state(name) == "free"; })) << "the lease ends with the session";
    pqxx::connection db{server::connection()};
    EXPECT_TRUE(shedlock::run(db, name, once, work));
    EXPECT_EQ(table.rows(), "1");
}

TEST_F(pqxx_in_doubt_test, a_run_says_so_even_if_its_work_does_not)
{
    const table_of_work table{"pg_terminate_backend(pg_backend_pid())"};
    pqxx::connection db{server::connection()};
    const auto swallows = [](pqxx::work &tx) {
        work(tx);
        EXPECT_THROW(tx.commit(), pqxx::in_doubt_error);
    };
    EXPECT_THROW(shedlock::run(db, name, once, swallows), shedlock::in_doubt);
    EXPECT_EQ(table.rows(), "0");
}

TEST_F(pqxx_in_doubt_test, the_lock_is_not_inert)
{
    const table_of_work table{"pg_terminate_backend(pg_backend_pid())"};
    pqxx::connection db{server::connection()};
    auto mine = shedlock::try_acquire(db, name, once);
    ASSERT_TRUE(mine);
    pqxx::connection doubtful{server::connection()};
    {
        pqxx::work tx{doubtful};
        work(tx);
        EXPECT_THROW(commit(*mine, tx), shedlock::in_doubt);
    }
    EXPECT_EQ(server::state(name), "held");
    mine.reset();
    EXPECT_EQ(server::state(name), "free");
    EXPECT_EQ(server::last_outcome(name), "failed");
}

// The commit of a request that waits for the standby is cut off.
void expect_doubt(const std::function<void(pqxx::connection &)> &request)
{
    const server::missing_standby missing;
    proxy network;
    auto asking = std::async(std::launch::async, [&] {
        pqxx::connection db{network.connection()};
        request(db);
    });
    EXPECT_TRUE(server::comes_true(server::a_commit_waits_for_the_standby));
    network.cut();
    EXPECT_THROW(asking.get(), shedlock::in_doubt);
}

TEST_F(pqxx_in_doubt_test, acquire_and_extend_say_so)
{
    expect_doubt([&](auto &db) { (void) shedlock::try_acquire(db, name, once); });
    pqxx::connection direct{server::connection()};
    const auto mine = shedlock::try_acquire(direct, name + " extended", once);
    ASSERT_TRUE(mine);
    expect_doubt([&](auto &db) { shedlock::pqxx_lock{db, mine->names(), mine->token()}.extend(1min); });
}
