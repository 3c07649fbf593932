#include "connection.hpp"

#include "exit.hpp"
#include "message.hpp"
#include "opening.hpp"
#include "stop_signal.hpp"

#include <algorithm>
#include <libpq-fe.h>
#include <memory>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

namespace shedlock::internal {

using namespace std::chrono_literals;

namespace {

using result = std::unique_ptr<pg_result, freed<PQclear>>;

bool starts_with_any(std::string_view state, std::initializer_list<std::string_view> prefixes)
{
    return std::any_of(prefixes.begin(), prefixes.end(), [&](auto one) { return state.starts_with(one); });
}

std::string field_of(const pg_result *said, int which)
{
    const auto *const text = PQresultErrorField(said, which);
    return text ? text : "";
}

std::string message_of(const pg_result *said)
{
    return one_line(field_of(said, PG_DIAG_MESSAGE_PRIMARY) + '\n' + field_of(said, PG_DIAG_MESSAGE_DETAIL) + '\n' +
                    field_of(said, PG_DIAG_MESSAGE_HINT));
}

bool is_error(const pg_result *said)
{
    const auto status = PQresultStatus(said);
    return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK;
}

std::vector<fields> rows_of(const pg_result *said)
{
    std::vector<fields> rows;
    for (int row = 0; row < PQntuples(said); ++row) {
        auto &mine = rows.emplace_back();
        for (int column = 0; column < PQnfields(said); ++column)
            mine.push_back(PQgetisnull(said, row, column) ? std::nullopt
                                                          : std::optional{std::string{PQgetvalue(said, row, column)}});
    }
    return rows;
}

[[noreturn]] void raise_lost(const std::string &why, const std::string &state = {})
{
    throw reply_lost{"the connection to PostgreSQL broke: " + why, state};
}

[[noreturn]] void raise(const std::string &message, const std::string &state)
{
    if (state == sqlstate::lost)
        throw lock_lost{message, state};
    if (state == "25006")
        throw connection_error{
            message + ". This server takes no writes: name all hosts of the cluster in the connection string, "
                      "with target_session_attrs=read-write",
            state};
    if (state == "55P03")
        throw busy{message + ". Another session has locked the table, or waits to lock it (LOCK TABLE, ALTER TABLE)",
                   state};
    if (state == "42501")
        throw usage_error{message +
                              ". An administrator can allow it: SELECT shedlock_grant('role'), with admin => true for "
                              "pause, resume, force_release and forget, with read_only => true to look only; "
                              "GRANT USAGE ON SCHEMA if permission is denied for the schema",
                          state};
    if (starts_with_any(state, {"22", "3F", "42", "54000", "55000"}))
        throw usage_error{message, state};
    throw error{message, state};
}

} // namespace

connection::connection(const std::string &how, std::chrono::milliseconds patience, bool to_write, bool is_unproven,
                       bool is_quotable)
    : connection_{open(how, patience, to_write, is_unproven, is_quotable)}, is_encrypted_{PQsslInUse(connection_) ||
                                                                                          PQgssEncInUse(connection_)}
{
    PQsetnonblocking(connection_, 1);
    PQsetNoticeReceiver(connection_, remember, this);
}

connection::~connection()
{
    const tls_use here;
    if (here.is_allowed() || !is_encrypted_) // otherwise the kernel closes it
        PQfinish(connection_);
}

void connection::require(const tls_use &here) const
{
    if (is_encrypted_ && !here.is_allowed())
        raise_lost("this process is exiting");
}

// Called by libpq, through which no exception may pass.
void connection::remember(void *self, const pg_result *notice) noexcept
{
    auto &mine = *static_cast<connection *>(self);
    try {
        mine.notices_.push_back({message_of(notice), field_of(notice, PG_DIAG_SQLSTATE)});
    } catch (const std::bad_alloc &) {
        mine.is_missing_notice_ = true;
    }
}

bool connection::is_ready(short events, clock::time_point until, int stopped) const noexcept
{
    pollfd all[]{{PQsocket(connection_), events, 0}, {stopped, POLLIN, 0}};
    const auto pause = std::chrono::ceil<std::chrono::milliseconds>(limited_wait(until));
    return ::poll(all, std::size(all), static_cast<int>(pause.count())) > 0;
}

// Reads what has arrived between requests, so that a closed connection is noticed before a request is lost with it.
bool connection::is_open() noexcept
{
    while (is_ready(POLLIN, clock::time_point::min())) {
        const tls_use here;
        if ((is_encrypted_ && !here.is_allowed()) || !PQconsumeInput(connection_))
            return false;
        PQisBusy(connection_); // parses what has arrived
    }
    return PQstatus(connection_) == CONNECTION_OK;
}

int connection::socket() const noexcept
{
    return PQsocket(connection_);
}

// On a socket that is not TCP this fails, and is not needed.
void connection::watch_closely() const noexcept
{
    const auto set = [this](int level, int option, int value) {
        ::setsockopt(socket(), level, option, &value, sizeof value);
    };
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set(IPPROTO_TCP, TCP_KEEPINTVL, 3);
    set(IPPROTO_TCP, TCP_KEEPCNT, 3);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, 15000);
}

int connection::backend() const noexcept
{
    return PQbackendPID(connection_);
}

// The next part of an answer, or null at its end.
pg_result *connection::receive(clock::time_point until, const stop_signal &stop)
{
    const auto asked = clock::now();
    for (;;) {
        std::optional<tls_use> here{std::in_place};
        require(*here);
        const auto unsent = PQflush(connection_);
        if (unsent == 0 && !PQisBusy(connection_))
            return PQgetResult(connection_);
        here.reset(); // otherwise the end of the process would have to wait as long as we do
        if (clock::now() >= until || stop.is_requested()) {
            const auto waited = std::chrono::round<std::chrono::milliseconds>(clock::now() - asked);
            throw unanswered{"PostgreSQL did not answer within " + std::to_string(waited.count()) + " ms"};
        }
        is_ready(unsent == 0 ? POLLIN : POLLIN | POLLOUT, until, stop.descriptor());
        require(here.emplace());
        if (unsent < 0 || !PQconsumeInput(connection_)) // even if not ready: TLS may have read more than it returned
            raise_lost(one_line(PQerrorMessage(connection_)));
    }
}

// Returns the first error if there is one, otherwise the last result. If only the commit fails, the error comes after
// the rows.
pg_result *connection::receive_last(clock::time_point until, const stop_signal &stop)
{
    result last;
    while (result next{receive(until, stop)})
        if (!last || !is_error(last.get()))
            last = std::move(next);
    return last.release();
}

void connection::send(const std::string &sql, const std::vector<const char *> &values)
{
    const tls_use here;
    require(here);
    if (!PQsendQueryParams(connection_, sql.c_str(), static_cast<int>(values.size()), nullptr, values.data(), nullptr,
                           nullptr, 0))
        raise_lost(one_line(PQerrorMessage(connection_)));
}

reply connection::ask(const std::string &sql, const fields &values, clock::time_point until,
                      const std::stop_token &stop)
{
    std::vector<const char *> pointers;
    for (const auto &value : values)
        pointers.push_back(value ? value->c_str() : nullptr);
    notices_.clear();
    is_missing_notice_ = false;

    const auto sent = clock::now();
    send(sql, pointers);
    auto answer = await(until, stop);
    answer.sent = sent;
    return answer;
}

reply connection::await(clock::time_point until, const std::stop_token &stop)
{
    const result said{receive_last(until, stop_signal{stop})};
    if (!said)
        raise_lost(one_line(PQerrorMessage(connection_)));
    if (is_error(said.get())) {
        const auto state = field_of(said.get(), PG_DIAG_SQLSTATE);
        // The server process was terminated (57P: by an administrator, a crash or a shutdown, for example), or the
        // connection has failed in another way.
        if (state.empty() || starts_with_any(state, {"08", "57P"}) || !is_open())
            raise_lost(state.empty() ? one_line(PQresultErrorMessage(said.get())) : message_of(said.get()), state);
        raise(message_of(said.get()), state);
    }
    if (is_missing_notice_)
        throw std::bad_alloc{};
    return {rows_of(said.get()), std::move(notices_), {}};
}

} // namespace shedlock::internal
