// Rows that another transaction has locked: keep-alive goes on with the others, and so do the callers.
#include "core.hpp"
#include "fixture.hpp"
#include "proxy.hpp"

#include <future>

using namespace shedlock;
using namespace shedlock::internal;

namespace {

// Locks all rows whose names match this LIKE pattern by SELECT ... FOR UPDATE, for as long as this object lives.
class row_locks {
public:
    explicit row_locks(const std::string &like)
    {
        transaction_.exec("SELECT FROM shedlock WHERE name LIKE " + server::literal(like) + " FOR UPDATE");
    }

private:
    pqxx::connection connection_;
    pqxx::work transaction_{connection_};
};

} // namespace

class kept_test : public with_server {
protected:
    // For a keeper and leases that the tests make themselves, so that a lease can have begun long ago.
    reporter report{shedlock::client_settings{.on_event = heard.handler()}};
    timer time;

    // Leases of an hour, which are due to be extended.
    std::vector<std::shared_ptr<lease>> due(const std::string &kind, int count, clock::duration left = 35min)
    {
        const auto tokens = server::ask("SELECT string_agg(shedlock_acquire_token(" + server::literal(name + kind) +
                                        " || i, '1 hour')::text, ' ' ORDER BY i) FROM generate_series(1, " +
                                        std::to_string(count) + ") i");
        std::istringstream list{tokens};
        std::vector<std::shared_ptr<lease>> all;
        std::int64_t number = 0;
        for (int i = 1; list >> number; ++i)
            all.push_back(std::make_shared<lease>(
                time, shedlock::names{name + kind + std::to_string(i)},
                grant{token{number}, clock::now() + left + 6s + 3600ms - 1h, false, std::nullopt}, 1h));
        return all;
    }

    static bool are_extended(const std::vector<std::shared_ptr<lease>> &all)
    {
        return std::ranges::all_of(all, [](const auto &one) { return one->deadline() > clock::now() + 50min; });
    }

    void keep(keeper &by, const std::vector<std::shared_ptr<lease>> &all)
    {
        for (const auto &one : all)
            by.keep(one);
    }
};

TEST_F(kept_test, rows_that_are_locked_do_not_endanger_other_locks)
{
    const auto healthy = due(" healthy ", 250), stuck = due(" stuck ", 250);
    std::optional<row_locks> others{std::in_place, name + " stuck %"};
    session shared{[] { return server::connection(); }, 1min};
    keeper keeping{[] { return server::connection(); }, shared, report};
    keep(keeping, stuck);
    keep(keeping, healthy);
    EXPECT_TRUE(server::comes_true([&] { return are_extended(healthy); }));
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::extend_failing) == 250; })) << heard.texts();
    for (const auto &one : heard.all())
        EXPECT_TRUE(one.what == event::kind::extend_failing && one.lock.list().at(0).starts_with(name + " stuck "))
            << one.text;
    others.reset();
    EXPECT_TRUE(server::comes_true([&] { return are_extended(stuck); }));
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::extend_recovered) == 250; })) << heard.texts();
    EXPECT_EQ(heard.all().size(), 500u) << heard.texts();
}

TEST_F(kept_test, a_lock_of_several_names_is_extended_when_all_its_rows_are_free)
{
    const auto mine = locks.try_acquire({name + " a", name + " b", name + " c"}, {.at_most = 1h});
    const auto both = std::make_shared<lease>(time, mine->names(),
                                              grant{mine->token(), clock::now() - 25min, false, std::nullopt}, 1h);
    server::ask("SELECT shedlock_complete_token(" + server::literal(name + " a") + ", " +
                std::to_string(number(mine->token())) + ")");
    std::optional<row_locks> others{std::in_place, name + " b"};
    session shared{[] { return server::connection(); }, 1min};
    keeper keeping{[] { return server::connection(); }, shared, report};
    keeping.keep(both);
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::extend_failing) == 1; })) << heard.texts();
    others.reset();
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::extend_recovered) == 1; })) << heard.texts();
    EXPECT_TRUE(are_extended({both}));
    EXPECT_EQ(heard.all().size(), 2u) << heard.texts();
}

TEST_F(kept_test, a_lock_of_the_whole_table_is_one_event)
{
    const auto all = due(" ", 150);
    pqxx::connection connection;
    std::optional<pqxx::work> other{std::in_place, connection};
    other->exec("LOCK TABLE shedlock");
    session shared{[] { return server::connection(); }, 1min};
    keeper keeping{[] { return server::connection(); }, shared, report};
    keep(keeping, all);
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::extend_failing) == 1; })) << heard.texts();
    other.reset();
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::extend_recovered) == 1; })) << heard.texts();
    EXPECT_TRUE(are_extended(all));
    EXPECT_EQ(heard.all().size(), 2u) << heard.texts();
}

// A lock whose lease PostgreSQL cannot represent makes the statement for all locks fail, but the other locks are
// extended by their next statements.
TEST_F(kept_test, one_that_postgresql_cannot_extend_does_not_endanger_other_locks)
{
    constexpr auto year = 365 * 24h + 5h + 49min;
    const auto healthy = due(" ", 120), endless = due(" endless ", 1);
    const auto broken = std::make_shared<lease>(
        time, endless[0]->names, grant{endless[0]->token, clock::now() - 100000 * year, false, std::nullopt},
        292'265 * year); // beyond timestamp
    session shared{[] { return server::connection(); }, 1min};
    keeper keeping{[] { return server::connection(); }, shared, report};
    keeping.keep(broken);
    keep(keeping, healthy);
    EXPECT_TRUE(server::comes_true([&] { return are_extended(healthy); })) << heard.texts();
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::extend_failing) == 2; })) << heard.texts();
    EXPECT_EQ(heard.all().back().lock.list(), broken->names.list());
    EXPECT_EQ(heard.count(event::kind::extend_recovered), 1) << heard.texts();
    EXPECT_EQ(heard.all().size(), 3u) << heard.texts();
}

// ---- Outages ----

class keeping_outage_test : public kept_test {
protected:
    proxy network;
    std::mutex gate; // while it is locked, no connection to the server is opened
    const session::source source{[this] {
        const std::lock_guard hold{gate};
        return network.connection();
    }};
    session shared{source, 1min};
    keeper keeping{source, shared, report};

    void expect(const std::vector<std::pair<event::kind, std::string>> &wanted)
    {
        EXPECT_TRUE(server::comes_true([&] { return heard.all().size() >= wanted.size(); })) << heard.texts();
        const auto all = heard.all();
        ASSERT_EQ(all.size(), wanted.size()) << heard.texts();
        for (std::size_t i = 0; i < all.size(); ++i) {
            EXPECT_EQ(all[i].what, wanted[i].first) << all[i].text;
            EXPECT_TRUE(all[i].text.starts_with(wanted[i].second)) << all[i].text;
        }
    }
};

TEST_F(keeping_outage_test, is_one_event_and_its_end_another)
{
    const auto all = due(" ", 250);
    network.refuse_newcomers();
    {
        const frozen_clock clock;
        const std::lock_guard hold{gate}; // until keep-alive has all of them, so that the event counts them all
        keep(keeping, all);
    }
    expect({{event::kind::extend_failing, "250 locks could not be extended yet: "}});
    EXPECT_TRUE(heard.all().front().lock.list().empty());
    network.let_go();
    expect({{event::kind::extend_failing, ""}, {event::kind::extend_recovered, "250 locks "}});
    EXPECT_TRUE(are_extended(all));
}

TEST_F(keeping_outage_test, reports_each_lock_that_is_lost_before_the_outage_ends)
{
    const auto some = due(" ", 3);
    network.refuse_newcomers();
    keep(keeping, some);
    expect({{event::kind::extend_failing, ""}});
    keep(keeping, due(" lost ", 2, 1s));
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::lost) == 2; })) << heard.texts();
    network.let_go();
    expect({{event::kind::extend_failing, ""},
            {event::kind::lost, ""},
            {event::kind::lost, ""},
            {event::kind::extend_recovered, "3 locks "}});
}

// The application extends one of them itself, and gets no answer. Until that is settled, no recovery is reported.
TEST_F(keeping_outage_test, reports_no_recovery_before_a_loss)
{
    const frozen_clock clock;
    const auto some = due(" ", 2);
    network.refuse_newcomers();
    keep(keeping, some);
    expect({{event::kind::extend_failing, "2 locks "}});
    std::unique_lock extended_by_the_application{some[1]->extending, std::defer_lock};
    EXPECT_TRUE(server::comes_true([&] { return extended_by_the_application.try_lock(); })); // after the failed attempt
    network.let_go();
    EXPECT_TRUE(server::comes_true([&] {
        advance_clock(100ms);
        return are_extended({some[0]});
    }));
    const auto last = due(" last ", 1);
    keep(keeping, last);
    EXPECT_TRUE(server::comes_true([&] { return are_extended(last); })); // so the thread has looked again
    EXPECT_EQ(heard.count(event::kind::extend_recovered), 0) << heard.texts();
    advance_clock(35min);
    expect({{event::kind::extend_failing, "2 locks "},
            {event::kind::lost, some[1]->names.to_text()},
            {event::kind::extend_recovered, some[0]->names.to_text()}});
}

TEST_F(keeping_outage_test, reports_no_recovery_when_all_locks_are_lost)
{
    network.refuse_newcomers();
    keep(keeping, due(" lost ", 2, 1s));
    EXPECT_TRUE(server::comes_true([&] { return heard.count(event::kind::lost) == 2; })) << heard.texts();
    network.let_go();
    const auto next = due(" next ", 1);
    keep(keeping, next);
    EXPECT_TRUE(server::comes_true([&] { return are_extended(next); }));
    EXPECT_EQ(heard.count(event::kind::extend_recovered), 0) << heard.texts();
}

// ---- Callers ----

class blocked_test : public with_server {
protected:
    shedlock::client patient = client(server::connection() + " application_name=patient", 10min);
    shedlock::lock mine = *patient.try_acquire(name, {.at_most = 1h});

    // Other callers go on while the work waits for the end of the transaction that has locked the row.
    void expect_others_to_go_on(const std::function<void()> &work)
    {
        std::optional<row_locks> other{std::in_place, name};
        auto waiting = std::async(std::launch::async, work);
        EXPECT_TRUE(server::comes_true([] {
            return server::ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'patient'"
                               " AND query ~ 'shedlock_(extend|release)_token'") == "1";
        }));
        for (int i = 0; i < 10; ++i)
            EXPECT_TRUE(patient.try_acquire(name + ' ' + std::to_string(i), {.at_most = 1h}));
        EXPECT_EQ(waiting.wait_for(0s), std::future_status::timeout);
        other.reset();
        EXPECT_NO_THROW(waiting.get());
    }
};

TEST_F(blocked_test, an_extend_keeps_no_other_caller_waiting)
{
    expect_others_to_go_on([&] { mine.extend(2h); });
    EXPECT_GT(mine.deadline(), shedlock::clock::now() + 1h);
}

TEST_F(blocked_test, a_release_keeps_no_other_caller_waiting)
{
    expect_others_to_go_on([&] { mine.release(); });
    EXPECT_EQ(server::state(name), "free");
}

TEST_F(blocked_test, has_no_request_under_way_when_it_gives_up)
{
    session one{[] { return server::connection(); }, 1min};
    one.ask("SELECT", {}); // opens the connection
    std::optional<row_locks> other{std::in_place, name};
    const frozen_clock stopped;
    const auto until = clock::now() + 8s; // it gives up when two of these seconds are left
    auto releasing =
        std::async(std::launch::async, [&] { release(one, mine.names(), mine.token(), outcome::done, until, until); });
    pass_time(6s);
    try {
        releasing.get();
        ADD_FAILURE() << "released";
    } catch (const busy &failure) {
        EXPECT_NE(std::string{failure.what()}.find(row_is_busy), std::string::npos) << failure.what();
    }
    other.reset();
    EXPECT_EQ(server::state(name), "held") << "nothing has happened";
}

TEST_F(blocked_test, sends_nothing_that_might_not_be_answered_in_time)
{
    const table_of_work table;
    session one{[] { return server::connection(); }, 1min};
    const frozen_clock stopped;
    const auto until = clock::now() + 1s;
    EXPECT_THROW(one.ask(table_of_work::work, {}, until, {}, [&] { advance_clock(800ms); }),
                 shedlock::connection_error);
    EXPECT_EQ(table.rows(), "0");
}

// The server gives up before the client. Otherwise it would grant the lock later, when nobody wants it any more.
class locked_table_test : public with_server {
protected:
    // Reads the table, like a dump. DDL waits for that, and so does every later statement.
    pqxx::connection one_{server::connection()}, other_{server::connection()};
    std::optional<pqxx::work> dump_{one_};
    std::future<void> ddl_;

    void SetUp() override
    {
        dump_->exec("LOCK TABLE shedlock IN ACCESS SHARE MODE");
        ddl_ = std::async(std::launch::async, [this] { pqxx::work{other_}.exec("LOCK TABLE shedlock"); });
        EXPECT_TRUE(server::comes_true([] {
            return server::ask("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'shedlock'::regclass") ==
                   "1";
        }));
    }

    // Fails with this SQLSTATE while the table is locked, and nothing happens when it is not locked any more.
    void expect_refusal(const std::string &connection, std::chrono::milliseconds timeout)
    {
        const frozen_clock still; // only the server ends the wait
        auto through = client(connection, timeout);
        auto asking = std::async(std::launch::async, [&] { (void) through.try_acquire(name, {.at_most = 1h}); });
        EXPECT_TRUE(server::comes_true([&] { return asking.wait_for(0s) == std::future_status::ready; }));
        dump_.reset();
        ddl_.get();
        try {
            asking.get();
            ADD_FAILURE() << "it was acquired";
        } catch (const in_doubt &failure) {
            ADD_FAILURE() << failure.what();
        } catch (const connection_error &failure) {
            EXPECT_EQ(failure.sqlstate(), "55P03");
            EXPECT_NE(std::string{failure.what()}.find("locked the table"), std::string::npos) << failure.what();
        }
        EXPECT_EQ(server::state(name), "");
    }
};

TEST_F(locked_table_test, is_not_acquired_later)
{
    expect_refusal(server::connection() + " connect_timeout=600", 1s); // the server's limit is a part of this second
}

TEST_F(locked_table_test, a_smaller_limit_of_the_session_stays)
{
    expect_refusal("options='-c lock_timeout=100ms'", 1h);
}

// By the client's clock the time is over long before the server gives up.
TEST_F(locked_table_test, is_cancelled_when_the_caller_has_given_up)
{
    auto through = client(""); // past a pooler, whose sessions cannot be cancelled
    auto asking = std::async(std::launch::async, [&] { (void) through.try_acquire(name, {.at_most = 1h}); });
    const auto waiting = [] {
        return server::ask("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND wait_event_type = 'Lock' "
                           "AND query LIKE '%shedlock_acquire_token%' AND pid <> pg_backend_pid()");
    };
    EXPECT_TRUE(server::comes_true([&] { return waiting() == "1"; }));
    advance_clock(1min); // once: the thread that goes on has a minute from now on
    EXPECT_THROW(asking.get(), in_doubt);
    EXPECT_TRUE(server::comes_true([&] { return waiting() == "0"; })) << "although the table is still locked";
    dump_.reset();
    ddl_.get();
    EXPECT_EQ(server::state(name), "");
}
