#include "statements.hpp"

#include "shedlock/shedlock.hpp"

#include <iostream>
#include <sstream>

namespace crowd {

using history::action;
using history::maker;
using history::microseconds;
using history::operation;
using history::result;

const char *const preparations = R"(
CREATE TABLE IF NOT EXISTS ledger (name text, token bigint, run int);
CREATE INDEX IF NOT EXISTS ledger_name ON ledger (name, token);
CREATE UNLOGGED TABLE IF NOT EXISTS scratch (n int); -- never read
CREATE OR REPLACE FUNCTION server_time() RETURNS bigint LANGUAGE sql VOLATILE
    AS $$SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint$$;
CREATE OR REPLACE FUNCTION seen(lock_name text) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN (SELECT concat_ws(' ', (extract(epoch FROM locked_at) * 1000000)::bigint, (extract(epoch FROM lock_until) * 1000000)::bigint,
                             (SELECT count(*) FROM ledger l WHERE l.name = lock_name AND token < extract(epoch FROM locked_at) * 1000000))
              FROM shedlock s WHERE s.name = lock_name);
END $$;
CREATE OR REPLACE FUNCTION in_block(names text[], at_most interval, at_least interval, wait interval, tick timestamptz, retry boolean, start_within interval)
    RETURNS bigint LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    RETURN shedlock_acquire_token(names, at_most, at_least, wait, tick, retry, start_within);
EXCEPTION WHEN division_by_zero THEN
    RAISE;
END $$;
-- The command of a run. INFO reaches the client at once, even if the work fails later. token is NULL if the row is no longer this run's.
CREATE OR REPLACE FUNCTION work(lock_name text, run int, seconds float8, fails boolean) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    token bigint := (SELECT (extract(epoch FROM locked_at) * 1000000)::bigint FROM shedlock
                      WHERE name = lock_name AND locked_by LIKE '%/' || pg_backend_pid() || '.%!%');
BEGIN
    RAISE INFO 'begun % % %', server_time(), pg_backend_pid(), coalesce(token, 0);
    INSERT INTO ledger VALUES (lock_name, token, run);
    PERFORM pg_sleep(seconds);
    IF fails THEN
        RAISE division_by_zero;
    END IF;
    RAISE INFO 'ended %', server_time();
END $$;
CREATE OR REPLACE FUNCTION many_subtransactions() RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    FOR i IN 1 .. 70 LOOP
        BEGIN
            INSERT INTO scratch VALUES (i);
        EXCEPTION WHEN division_by_zero THEN
            RAISE;
        END;
    END LOOP;
END $$;
)";

namespace {

std::string interval(microseconds time)
{
    return std::to_string(time) + " microseconds";
}

std::string seconds(microseconds time)
{
    return std::to_string(static_cast<double>(time) / 1e6);
}

// Passes one name as text and several as an array, so that both variants of each function are called.
std::string names_value(const operation &op)
{
    if (op.names.size() == 1)
        return op.names[0];
    std::string list;
    for (const auto &name : op.names)
        list += (list.empty() ? "{" : ",") + name;
    return list + '}';
}

std::string names_type(const operation &op)
{
    return op.names.size() == 1 ? "text" : "text[]";
}

std::string timed(const std::string &call, const std::string &seen)
{
    return "SELECT before, answer, " + seen + ", server_time() FROM (SELECT server_time() AS before, " + call +
           " AS answer OFFSET 0) one";
}

std::optional<std::string> start_within(const operation &op)
{
    return op.start_within ? std::optional{interval(*op.start_within)} : std::nullopt;
}

statement acquire(const operation &op, const manner &manner)
{
    const bool by_session = op.by == maker::session;
    auto call =
        std::string{by_session ? "shedlock_acquire" : "shedlock_acquire_token"} + "($1::" + names_type(op) +
        ", $2::interval, $3::interval, $4::interval, to_timestamp($5::float8 / 1000000), $6::boolean, $7::interval" +
        (by_session ? ")" : ", $8::text)");
    shedlock::libpqxx::parameters values{names_value(op),
                                         interval(op.at_most),
                                         interval(op.at_least.value_or(0)),
                                         interval(op.wait),
                                         op.tick ? std::optional{std::to_string(*op.tick)} : std::nullopt,
                                         op.retry ? "true" : "false",
                                         start_within(op)};
    if (!by_session && manner.how == wrapping::exception_block) {
        call = "in_block(string_to_array(translate($1, '{}', ''), ','), $2::interval, $3::interval, $4::interval, "
               "to_timestamp($5::float8 / 1000000), $6::boolean, $7::interval)";
    } else if (!by_session) {
        values.push_back(manner.host);
    }
    const std::string granted = by_session ? "answer" : "answer IS NOT NULL";
    values.push_back(op.names[0]);
    const auto seen = manner.sees_row
                          ? "CASE WHEN " + granted + " THEN seen($" + std::to_string(values.size()) + "::text) END"
                          : "$" + std::to_string(values.size()) + "::text LIKE ''";
    const auto sql = timed(call, seen);
    return {manner.how == wrapping::cursor ? "DECLARE one_row CURSOR FOR " + sql : sql, values};
}

statement change(const operation &op, std::optional<microseconds> token)
{
    const bool extends = op.what == action::extend;
    shedlock::libpqxx::parameters values{names_value(op)};
    const auto next = [&](std::optional<std::string> value, const char *type) {
        values.push_back(std::move(value));
        return ", $" + std::to_string(values.size()) + "::" + type;
    };
    std::string call = std::string{extends ? "shedlock_extend" : "shedlock_release"} +
                       (op.by == maker::session ? "" : "_token") + "($1::" + names_type(op);
    if (op.by == maker::token)
        call += next(std::to_string(token.value_or(0)), "bigint");
    if (extends) {
        call += next(interval(op.at_most), "interval");
        call += next(op.at_least ? std::optional{interval(*op.at_least)} : std::nullopt, "interval");
    }
    if (op.as == history::outcome::failed)
        call += ", done => false";
    return {timed(call + ")", "NULL::text"), values};
}

statement run(const operation &op, const manner &manner)
{
    return {
        "CALL shedlock_run($1::text, format('SELECT work(%L, %s, %s, %L)', $1::text, $2::text, $3::text, $4::text), "
        "$5::interval, $6::interval, $7::interval, to_timestamp($8::float8 / 1000000), $9::boolean, $10::interval)",
        {op.names[0], std::to_string(op.number), seconds(manner.work),
         op.as == history::outcome::failed ? "true" : "false", interval(op.at_most), interval(op.at_least.value_or(0)),
         interval(op.wait), op.tick ? std::optional{std::to_string(*op.tick)} : std::nullopt,
         op.retry ? "true" : "false", start_within(op)}};
}

statement guard(const operation &op, std::optional<microseconds> token)
{
    const auto call =
        op.by == maker::session ? "shedlock_guard($1::text)" : "shedlock_guard_token($1::text, $2::bigint)";
    return {std::string{"INSERT INTO ledger SELECT $1::text, $2::bigint FROM "} + call,
            {op.names[0], std::to_string(token.value_or(0))}};
}

// The work is a row with the number of the completion.
statement complete(const operation &op, std::optional<microseconds> token)
{
    const auto call = (op.by == maker::session ? "shedlock_complete($1::" : "shedlock_complete_token($1::") +
                      names_type(op) + (op.by == maker::session ? ")" : ", $3::bigint)");
    return {"INSERT INTO ledger SELECT $2::text, $3::bigint, $4::int FROM " + call,
            {names_value(op), op.names[0], std::to_string(token.value_or(0)), std::to_string(op.number)}};
}

// Exactly the statements of ShedLock for Java, except for RETURNING, which shows what was written.
#define JAVA_NOW "timezone('utc', CURRENT_TIMESTAMP)"
constexpr const char *java_returning =
    " RETURNING (extract(epoch FROM locked_at) * 1000000)::bigint, (extract(epoch FROM lock_until) * 1000000)::bigint";

statement java_acquire(const operation &op, const manner &manner)
{
    const std::string update = "lock_until = " JAVA_NOW " + make_interval(secs => $2), locked_at = " JAVA_NOW
                               ", locked_by = $3 WHERE shedlock.name = $1 AND shedlock.lock_until <= " JAVA_NOW;
    const std::string first = "INSERT INTO shedlock(name, lock_until, locked_at, locked_by) VALUES($1, " JAVA_NOW
                              " + make_interval(secs => $2), " JAVA_NOW ", $3) ON CONFLICT (name) DO UPDATE SET ";
    return {(manner.is_first ? first : std::string{"UPDATE shedlock SET "}) + update + java_returning,
            {op.names[0], seconds(op.at_most), manner.host}};
}

statement java_change(const operation &op, const manner &manner)
{
    if (op.what == action::extend)
        return {"UPDATE shedlock SET lock_until = " JAVA_NOW
                " + make_interval(secs => $2) WHERE name = $1 AND locked_by = $3 "
                "AND lock_until > " JAVA_NOW,
                {op.names[0], seconds(op.at_most), manner.host}};
    return {"UPDATE shedlock SET lock_until = CASE WHEN locked_at + make_interval(secs => $2) > " JAVA_NOW
            " THEN locked_at + make_interval(secs => $2) ELSE " JAVA_NOW " END WHERE name = $1 AND locked_by = $3",
            {op.names[0], seconds(op.at_least.value_or(0)), manner.host}};
}
#undef JAVA_NOW

void read_seen(operation &op, const std::string &text)
{
    std::istringstream in{text};
    microseconds token = 0, until = 0;
    int ledger = 0;
    if (in >> token >> until >> ledger) {
        op.token = token;
        op.until = until;
        op.ledger = ledger;
    }
}

void read_timed(operation &op, const pqxx::result &rows)
{
    const auto &row = rows[0];
    op.before = row[0].as<microseconds>();
    op.after = row[3].as<microseconds>();
    if (op.by == maker::token && op.what == action::acquire) {
        op.result = row[1].is_null() ? result::no : result::yes;
        if (!row[1].is_null())
            op.token = row[1].as<microseconds>();
    } else {
        op.result = row[1].as<bool>() ? result::yes : result::no;
    }
    if (op.what == action::acquire && op.result == result::yes && !row[2].is_null())
        read_seen(op, row[2].c_str());
}

} // namespace

statement make_statement(const operation &op, std::optional<microseconds> token, const manner &manner)
{
    if (op.what == action::run)
        return run(op, manner);
    if (op.what == action::guard)
        return guard(op, token);
    if (op.what == action::complete)
        return complete(op, token);
    if (op.by == maker::java)
        return op.what == action::acquire ? java_acquire(op, manner) : java_change(op, manner);
    return op.what == action::acquire ? acquire(op, manner) : change(op, token);
}

void read_answer(operation &op, const pqxx::result &rows)
{
    if (op.by == maker::java || op.what == action::guard || op.what == action::complete) {
        op.result = rows.affected_rows() > 0 ? result::yes : result::no;
        if (op.what == action::acquire && op.result == result::yes) {
            op.token = rows[0][0].as<microseconds>();
            op.until = rows[0][1].as<microseconds>();
        }
    } else if (op.what == action::run) {
        op.result = rows[0][0].as<bool>() ? result::yes : result::no;
    } else {
        read_timed(op, rows);
    }
}

std::string state_of(const std::string &sqlstate, const std::string &message)
{
    if (sqlstate != "XX000")
        return sqlstate;
    if (message.find("cache lookup failed for function") != message.npos)
        return "42883";
    std::cerr << message << std::endl;
    return sqlstate;
}

void record(recorder &writer, operation &op, const std::function<void()> &ask)
{
    writer.call(op);
    op.result = result::yes;
    try {
        ask();
    } catch (const shedlock::lock_lost &) {
        op.result = op.what == action::acquire ? result::lost : result::no;
    } catch (const shedlock::connection_error &) {
        op.result = result::lost; // or at least in doubt
        pause(5000);
    } catch (const shedlock::error &failure) {
        op.result = result::error;
        op.state = state_of(failure.sqlstate(), failure.what());
        if (op.state.empty())
            op.state = "usage"; // the extension does not exist at the moment
    } catch (const pqxx::failure &failure) {
        op.state = state_of(shedlock::libpqxx::sqlstate(failure), failure.what());
        const bool is_lost = op.state.empty() || op.state.starts_with("57P") || op.state.starts_with("08");
        op.result = is_lost ? result::lost : result::error;
    }
    writer.done(op);
}

} // namespace crowd
