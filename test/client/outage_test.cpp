// Calls that wait for a server that cannot be reached, and connection strings with which none can ever be reached.
#include "outage.hpp"

#include "fixture.hpp"
#include "opening.hpp"
#include "proxy.hpp"
#include "tool_access.hpp"

#include <future>

namespace {

// A role that may use the locks, and log in with the password 'right'.
class role {
public:
    explicit role(const std::string &name) : name_{name}
    {
        server::ask("CREATE ROLE " + name + " LOGIN PASSWORD 'right'");
        server::ask("SELECT shedlock_grant('" + name + "')");
    }
    ~role()
    {
        server::ask("DROP OWNED BY " + name_);
        server::ask("DROP ROLE " + name_);
    }
    role(const role &) = delete;
    role &operator=(const role &) = delete;
    void alter(const std::string &what) const { server::ask("ALTER ROLE " + name_ + ' ' + what); }

private:
    const std::string name_;
};

} // namespace

class outage_test : public with_server {
protected:
    std::stop_source stop;

    std::future<bool> acquiring(shedlock::client &by, const std::string &what)
    {
        return std::async(std::launch::async, [this, &by, what] {
            auto lock = by.acquire(what, {.at_most = 1min}, 1h, stop.get_token());
            if (lock)
                lock->release();
            return lock.has_value();
        });
    }
    bool comes_to(event::kind what)
    {
        return server::comes_true([this, what] { return heard.include(what); });
    }
    std::vector<event::kind> kinds()
    {
        std::vector<event::kind> all;
        for (const auto &one : heard.all())
            all.push_back(one.what);
        return all;
    }
    // The SQLSTATE of the error that an acquire reports although it may wait for an hour, or "none". It is 22023 if
    // libpq cannot parse the connection string.
    std::string mistake_in(const std::string &connection)
    {
        auto wrong = client(connection);
        try {
            (void) wrong.acquire(name, {.at_most = 1min}, 1h);
        } catch (const shedlock::usage_error &failure) {
            EXPECT_EQ(std::string{failure.what()}.find("LOCATION"), std::string::npos) << failure.what();
            return failure.sqlstate();
        }
        return "none";
    }
};

TEST_F(outage_test, is_two_events_for_all_callers_that_wait)
{
    proxy network;
    network.refuse_newcomers();
    auto through = client(network.connection());
    auto one = acquiring(through, name), other = acquiring(through, name + " 2");
    EXPECT_TRUE(server::comes_true([&] { return network.refused() > 5; })) << "they go on trying";
    EXPECT_EQ(kinds(), std::vector{event::kind::acquire_failing});
    EXPECT_NE(heard.texts().find(name), std::string::npos) << heard.texts();
    network.let_go();
    EXPECT_TRUE(one.get());
    EXPECT_TRUE(other.get());
    EXPECT_EQ(kinds(), (std::vector{event::kind::acquire_failing, event::kind::acquire_recovered}));
}

// One call is reporting the outage while another reaches the server again.
TEST_F(outage_test, its_end_is_reported_after_its_beginning)
{
    std::vector<event::kind> reported;
    std::optional<shedlock::internal::outage> away;
    const shedlock::internal::reporter report{shedlock::client_settings{.on_event = [&](const event &one) {
        if (one.what == event::kind::acquire_failing)
            std::async(std::launch::async, [&] { away->end("other"); }).get();
        reported.push_back(one.what);
    }}};
    away.emplace(report);
    for (int i = 0; i < 2; ++i) {
        away->begin(name, std::runtime_error{"no server"});
        EXPECT_EQ(reported, (std::vector{event::kind::acquire_failing, event::kind::acquire_recovered}));
        reported.clear();
    }
    away->end(name);
    EXPECT_TRUE(reported.empty());
}

TEST_F(outage_test, is_no_event_for_a_call_that_does_not_wait)
{
    proxy network;
    network.refuse_newcomers();
    auto through = client(network.connection());
    EXPECT_THROW((void) through.try_acquire(name, {.at_most = 1min}), shedlock::connection_error);
    EXPECT_EQ(kinds(), std::vector<event::kind>{});
}

TEST_F(outage_test, ends_with_a_stop)
{
    proxy network;
    network.refuse_newcomers();
    auto through = client(network.connection());
    const frozen_clock clock; // so that a pause lasts until the stop
    auto waiting = acquiring(through, name);
    EXPECT_TRUE(comes_to(event::kind::acquire_failing));
    network.let_go();
    stop.request_stop();
    EXPECT_THROW(waiting.get(), shedlock::connection_error) << "nobody wants the lock any more";
}

// The limit of an outage counts from the start of the first request that failed, however long that took.
TEST_F(outage_test, its_limit_includes_the_first_request)
{
    proxy network;
    network.hold_newcomers();
    auto silent = client(network.connection());
    const frozen_clock clock;
    auto acquiring = std::async(std::launch::async, [&] {
        const auto now = shedlock::clock::now();
        return shedlock::internal::tool_access::acquire(silent, name, {.at_most = 1h}, {now, stop.get_token(), 50s},
                                                        nullptr);
    });
    EXPECT_TRUE(server::comes_true([&] { return network.newcomers() > 0; }));
    advance_clock(1min); // the request's timeout
    EXPECT_EQ(acquiring.wait_for(server::at_last), std::future_status::ready);
    stop.request_stop();
    EXPECT_THROW((void) acquiring.get(), shedlock::connection_error);
    EXPECT_FALSE(heard.include(event::kind::acquire_failing)) << "it does not wait any more";
    network.let_go();
}

TEST_F(outage_test, is_waited_for_by_a_pause_too)
{
    proxy network;
    network.refuse_newcomers();
    auto through = client(network.connection());
    auto pausing = std::async(std::launch::async, [&] { return through.pause(name, {}, 1h); });
    EXPECT_TRUE(comes_to(event::kind::acquire_failing));
    network.let_go();
    EXPECT_TRUE(pausing.get());
    EXPECT_TRUE(heard.include(event::kind::acquire_recovered));
    server::ask("SELECT shedlock_resume(" + server::literal(name) + ")");
}

TEST_F(outage_test, a_string_that_cannot_be_parsed_is_an_error_at_once)
{
    EXPECT_EQ(mistake_in("host localhost=x"), "22023");
    EXPECT_EQ(mistake_in("hots=localhost"), "22023");
    EXPECT_EQ(mistake_in("postgresql://localhost/?hots=x"), "22023");
    EXPECT_EQ(kinds(), std::vector<event::kind>{});
}

TEST_F(outage_test, what_the_server_rejects_for_good_is_an_error_at_once)
{
    const role known{"outage_known"};
    EXPECT_EQ(mistake_in("user=outage_known password=wrong"), "28P01");
    EXPECT_EQ(mistake_in("user=outage_known password='' passfile=/nowhere"), "28P01") << "there is no password";
    EXPECT_EQ(mistake_in("user=outage_known password=right dbname=':  57P03: not there'"), "3D000");
    EXPECT_EQ(mistake_in("not there"), "3D000") << "the name of a database";
    EXPECT_EQ(mistake_in("user=outage_known password=right options='-c no.such.name=1 -c no_such_name=1'"), "42704");
    known.alter("NOLOGIN");
    EXPECT_EQ(mistake_in("user=outage_known password=right"), "28000");
    if (!server::connection().empty()) {
        EXPECT_EQ(mistake_in(server::connection() + " options='-c geqo=off'"), "08P01") << "for PgBouncer";
    }
    EXPECT_EQ(kinds(), std::vector<event::kind>{});
}

TEST_F(outage_test, what_a_server_rejects_for_now_is_waited_for)
{
    const role known{"outage_limited"};
    known.alter("CONNECTION LIMIT 0");
    auto limited = client("user=outage_limited password=right");
    auto waiting = acquiring(limited, name);
    EXPECT_TRUE(comes_to(event::kind::acquire_failing));
    known.alter("CONNECTION LIMIT -1");
    EXPECT_TRUE(waiting.get());
}

TEST_F(outage_test, credentials_that_were_right_may_be_right_again)
{
    const role known{"outage_proven"};
    auto proven = client("user=outage_proven password=right");
    EXPECT_TRUE(proven.try_acquire(name, {.at_most = 1min}));
    known.alter("PASSWORD 'another'");
    // Waits for the end of the process, which closes the connection. The session leaves pg_stat_activity before that,
    // and a request that is sent in between gets no reply.
    EXPECT_EQ(server::ask("SELECT bool_and(pg_terminate_backend(pid, 600000)) FROM pg_stat_activity "
                          "WHERE usename = 'outage_proven'"),
              "t");
    auto waiting = acquiring(proven, name);
    EXPECT_TRUE(comes_to(event::kind::acquire_failing));
    known.alter("PASSWORD 'right'");
    EXPECT_TRUE(waiting.get());
}

TEST_F(outage_test, credentials_of_a_function_may_be_right_the_next_time)
{
    const role known{"outage_rotating"};
    std::atomic<bool> is_right = false;
    auto asking =
        shedlock::client{[&] { return "user=outage_rotating password=" + std::string{is_right ? "right" : "wrong"}; },
                         {.on_event = heard.handler()}};
    auto waiting = acquiring(asking, name);
    EXPECT_TRUE(comes_to(event::kind::acquire_failing));
    is_right = true;
    EXPECT_TRUE(waiting.get());
}

TEST(backoff_test, doubles_its_pauses_up_to_five_seconds)
{
    shedlock::internal::backoff pauses;
    std::vector<shedlock::clock::duration> all;
    for (int i = 0; i < 8; ++i) {
        all.push_back(pauses.next());
        pauses.rest(shedlock::clock::now(), {}); // ends at once, because the time is over
    }
    EXPECT_EQ(all, (std::vector<shedlock::clock::duration>{100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5s, 5s}));
    pauses.reset();
    EXPECT_EQ(pauses.next(), 100ms);
}

TEST(opening_test, reads_sqlstates_in_any_language)
{
    using shedlock::internal::sqlstate_in;
    const auto before = std::string{"connection to server at \"h\" (::1), port 5432 failed: "};
    EXPECT_EQ(sqlstate_in(before + "FATAL:  28P01: password authentication failed\nLOCATION:  auth_failed, auth.c:1"),
              "28P01");
    EXPECT_EQ(sqlstate_in(before + "FATALE:  3D000: il database \"x\" non esiste\nPOSIZIONE: y"), "3D000");
    EXPECT_EQ(sqlstate_in(before + "ВАЖНО:  28000: роль"), "28000");
    EXPECT_EQ(sqlstate_in(before + "Connection refused\n\tIs the server running on that host?"), "");
    EXPECT_EQ(sqlstate_in(before + "FATAL:  sorry, too many clients already"), "");
    EXPECT_EQ(sqlstate_in("FATAL:  28P01"), "");
    EXPECT_EQ(sqlstate_in(""), "");
}
