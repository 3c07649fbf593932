#include "session.hpp"

#include "stop_signal.hpp"
#include "thread.hpp"

#include <algorithm>
#include <cstdio>
#include <poll.h>

namespace shedlock::internal {

namespace {

// The version of the SQL functions that we need: this major version, and at least this minor version.
constexpr int needed_major = 1;
constexpr int needed_minor = 0;

// what: the name, in the message, of the thing that has this version. update: what an administrator must do if it is
// too old.
void require_version(const std::string &what, const std::string &version, const std::string &update)
{
    int major = 0, minor = 0;
    std::sscanf(version.c_str(), "%d.%d", &major, &minor);
    if (major == needed_major && minor >= needed_minor)
        return;
    const auto needed = std::to_string(needed_major) + "." + std::to_string(needed_minor);
    throw usage_error{what + " is version " + version + " here; this client needs " + needed + " or a later " +
                      std::to_string(needed_major) +
                      ".x: " + (major > needed_major ? "install a newer client" : update)};
}

std::string replaced(std::string_view text, std::string_view placeholder, const std::string &by)
{
    std::string all{text};
    for (auto at = all.find(placeholder); at != all.npos; at = all.find(placeholder, at + by.size()))
        all.replace(at, placeholder.size(), by);
    return all;
}

// The schema of the functions (NULL: there are none), the version of the extension (NULL: the portable edition), the
// database, the client_encoding that this sets for a SQL_ASCII database, the process id of the backend, and
// search_path. In a SQL_ASCII database the server cannot send a name that is not valid UTF-8 to a UTF-8 client, and one
// such name would hide all locks. There the client takes the bytes as they are.
constexpr const char *edition_query =
    "SELECT pg_catalog.quote_ident(n.nspname), e.extversion, pg_catalog.current_database(),"
    "       CASE WHEN pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.=) 'SQL_ASCII'::pg_catalog.name"
    "           THEN pg_catalog.set_config('client_encoding', 'SQL_ASCII', false) END,"
    "       pg_catalog.pg_backend_pid(), pg_catalog.current_setting('search_path')"
    "  FROM (SELECT) AS one"
    "  LEFT JOIN pg_catalog.pg_extension e ON e.extname OPERATOR(pg_catalog.=) 'shedlock'"
    "  LEFT JOIN pg_catalog.pg_proc f"
    "    ON f.oid OPERATOR(pg_catalog.=) pg_catalog.to_regprocedure('shedlock_version()')::pg_catalog.oid"
    "  LEFT JOIN pg_catalog.pg_namespace n"
    "    ON n.oid OPERATOR(pg_catalog.=) COALESCE(e.extnamespace, f.pronamespace)";

std::string not_installed(const std::string &database, const std::string &search_path)
{
    return "shedlock is not installed in database \"" + database +
           "\": an administrator must run CREATE EXTENSION shedlock there. Or, if it is the portable edition "
           "(shedlock.sql), its schema must be on search_path, which is " +
           search_path + ", and this role must be allowed to use that schema";
}

bool is_undefined_function_or_column(std::string_view state)
{
    return state == "42883" || state == "42703";
}

bool is_undefined_object(std::string_view state)
{
    return state == "3F000" || state == "42P01" || is_undefined_function_or_column(state);
}

} // namespace

clock::time_point latest_request(clock::time_point until) noexcept
{
    return until - std::max(until - clock::now(), clock::duration{}) / 4;
}

session::session(source from, std::chrono::milliseconds patience, bool to_write, bool connects_patiently)
    : source_{std::move(from)}, patience_{patience}, to_write_{to_write}, connects_patiently_{connects_patiently}
{
}

session::~session() = default;

clock::time_point session::brief_limit() const noexcept
{
    return clock::now() + clock::duration{patience_} / (2L << std::min(silences_ + busy_, 20));
}

void session::give_up(const std::string &why)
{
    ++silences_;
    throw connection_error{why};
}

void session::pin()
{
    is_pinned_ = true;
    if (const std::unique_lock mine{turn_, clock::time_point::max()}; connection_)
        connection_->watch_closely();
}

// Waits without a turn, so that requests can be sent. If one of them closes the socket meanwhile, or another socket
// gets its number, we look once more than necessary.
void session::await_loss(const std::stop_token &stop)
{
    const stop_signal stopped{stop};
    while (!stop.stop_requested()) {
        std::unique_lock mine{turn_, later(clock::now(), std::chrono::seconds{1})};
        if (!mine) // a request is under way, and will notice a loss itself
            continue;
        if (!connection_ || !connection_->is_open())
            return;
        pollfd any[]{{connection_->socket(), POLLIN, 0}, {stopped.descriptor(), POLLIN, 0}};
        mine.unlock();
        ::poll(any, std::size(any), 1000);
    }
}

bool session::try_to_open(clock::time_point until, const std::stop_token &stop)
try {
    const std::unique_lock mine{turn_, until};
    if (mine)
        open(until, stop);
    return mine.owns_lock();
} catch (const std::exception &) { // the next request tries again, and throws if that fails, too
    return false;
}

void session::close()
{
    if (const std::unique_lock mine{turn_, std::try_to_lock}; mine) {
        connection_.reset();
        if (opening_.valid() && opening_.wait_for(clock::duration{}) == std::future_status::ready)
            opening_ = {}; // no request waited for it
    }
}

bool session::is_occupied()
{
    return !std::unique_lock{turn_, std::try_to_lock};
}

// Opening cannot be interrupted, so a thread does it. If the request that began it gives up, a later request uses the
// result. If that is a failure, it is ignored, because it may be out of date, and the connection is opened again.
void session::open(clock::time_point &until, const std::stop_token &stop)
{
    while (!connection_ || !connection_->is_open()) {
        if (is_pinned_)
            throw lock_lost{"the session that held the lock is lost", sqlstate::lost};
        connection_.reset();
        const bool is_old = opening_.valid();
        if (!is_old)
            opening_ = quietly([this] {
                return std::async(std::launch::async, [this] {
                    on_library_thread = true;
                    const bool is_unproven = source_.is_unproven();
                    auto opened = std::make_unique<connection>(source_.string(), patience_, to_write_, is_unproven,
                                                               source_.is_fixed());
                    source_.prove();
                    return opened;
                });
            });
        const auto began = clock::now();
        const auto limit = connects_patiently_ ? clock::time_point::max() : until;
        while (opening_.wait_for(std::min<clock::duration>(limited_wait(limit), std::chrono::milliseconds{200})) !=
               std::future_status::ready)
            if (clock::now() >= limit || stop.stop_requested())
                give_up("PostgreSQL has not accepted a connection in time" +
                        (refusal_.empty() ? refusal_ : "; the attempt before: " + refusal_));
        if (connects_patiently_)
            until = later(until, clock::now() - began);
        try {
            connection_ = opening_.get();
            connects_patiently_ = false;
            refusal_.clear();
        } catch (const std::exception &failure) {
            refusal_ = failure.what();
            if (!is_old)
                throw;
        }
        if (connection_ && (!is_old || connection_->is_open()))
            find_functions(until, stop);
    }
}

// Called for each new connection, and when the functions are no longer in the known schema. The extension is found in
// the catalog, so any search_path will do, even one that leads to functions of the same names made by other roles. The
// portable edition is only a set of functions, and any role may have made such functions. So for them search_path
// decides, as for any SQL: roles that may create functions in a schema on it are trusted. From then on the schema is
// named in every statement.
void session::find_functions(clock::time_point until, const std::stop_token &stop)
try {
    const auto found = send(edition_query, {}, until, stop).rows.at(0);
    if (!found[0])
        throw usage_error{not_installed(*found[2], *found[5])};
    const std::string what = found[1] ? "extension shedlock" : "the portable edition of shedlock";
    const std::string update = found[1] ? "an administrator must run ALTER EXTENSION shedlock UPDATE"
                                        : "an administrator must run the shedlock.sql of a newer version";
    const auto version = found[1] ? *found[1]
                                  : send("SELECT version FROM " + *found[0] + ".shedlock_version()", {}, until, stop)
                                        .rows.at(0)[0]
                                        .value_or("unknown");
    require_version(what, version, update);
    lacking_ = what + " is version " + version + " here, and lacks something that this client, version " +
               SHEDLOCK_VERSION ", asks for: " + update;
    is_direct_ = found[4] == std::to_string(connection_->backend());
    const std::lock_guard hold{schema_mutex_};
    schema_ = *found[0];
} catch (const reply_lost &failure) {
    throw connection_error{failure.what(), failure.sqlstate()}; // the request that matters has not been sent yet
} catch (...) {
    connection_.reset(); // the next request opens another, and looks again
    throw;
}

std::string session::schema() const
{
    const std::lock_guard hold{schema_mutex_};
    return schema_;
}

std::string session::in_schema(std::string_view sql) const
{
    return replaced(sql, "@extschema@", schema());
}

// The server must give up before we do. Otherwise it would still grant the lock when nobody wants it any more.
std::string session::within(std::string_view sql, clock::time_point until) const
{
    const auto left = std::max(until - clock::now(), clock::duration{}) * 3 / 4;
    const auto limit = std::chrono::ceil<std::chrono::milliseconds>(left).count();
    return replaced(in_schema(sql), "@lock_timeout@", std::to_string(std::clamp<std::int64_t>(limit, 1, INT32_MAX)));
}

reply session::ask(std::string_view sql, const fields &values, clock::time_point until, const std::stop_token &stop,
                   const std::function<void()> &before, std::unique_ptr<connection> *unanswered_on)
{
    auto latest = latest_request(until);
    const auto reserve = until - latest;
    const std::unique_lock mine{turn_, latest};
    if (!mine)
        give_up("PostgreSQL does not answer: other calls of this client are waiting for it");
    open(latest, stop);
    until = later(latest, reserve);
    if (before)
        before();
    if (clock::now() >= latest)
        give_up("there was no time left to ask PostgreSQL");
    try {
        return send(within(sql, until), values, until, stop, unanswered_on);
    } catch (const usage_error &failure) {
        if (!is_undefined_object(failure.sqlstate()))
            throw;
    }
    // The functions are no longer there: ALTER EXTENSION ... SET SCHEMA has moved them while we were connected, or
    // CREATE EXTENSION has replaced those of the portable edition.
    find_functions(until, stop);
    try {
        return send(within(sql, until), values, until, stop, unanswered_on);
    } catch (const usage_error &failure) {
        if (!is_undefined_function_or_column(failure.sqlstate()))
            throw;
        throw outdated{lacking_ + ". PostgreSQL says: " + failure.what(), failure.sqlstate()};
    }
}

edition session::edition()
{
    const auto row = ask("SELECT edition, version FROM @extschema@.shedlock_version()", {}).rows.at(0);
    return {row[0].value(), row[1].value()};
}

reply session::send(const std::string &sql, const fields &values, clock::time_point until, const std::stop_token &stop,
                    std::unique_ptr<connection> *unanswered_on)
try {
    auto answer = connection_->ask(sql, values, until, stop);
    silences_ = 0;
    return answer;
} catch (const unanswered &) {
    if (unanswered_on)
        *unanswered_on = std::move(connection_);
    connection_.reset();
    ++silences_;
    throw;
} catch (const busy &) {
    throw;
} catch (const connection_error &) { // after a fail-over another host may accept writes
    connection_.reset();
    throw;
}

} // namespace shedlock::internal
