#include "session.hpp"

#include <stdexcept>

#include <poll.h>

namespace {

constexpr std::chrono::seconds too_long{180};
constexpr std::string_view point_prefix = "pause point: ";

shedlock::instant now()
{
    return std::chrono::floor<shedlock::duration>(std::chrono::system_clock::now());
}

std::string field(const PGresult *result, int code)
{
    const char *const value = PQresultErrorField(result, code);
    return value ? value : "";
}

} // namespace

session::session(const std::string &database) : connection_(PQconnectdb(("dbname=" + database).c_str()), &PQfinish)
{
    if (PQstatus(connection_.get()) != CONNECTION_OK)
        throw std::runtime_error(PQerrorMessage(connection_.get()));
    PQsetNoticeReceiver(connection_.get(), hear, this);
    mark_ = query("SELECT '/' || pid || '.' || (extract(epoch FROM backend_start) * 1000000)::bigint || '.' || "
                  "lpad(to_hex(hashint8((SELECT system_identifier FROM pg_control_system()))), 8, '0') "
                  "FROM pg_stat_activity WHERE pid = pg_backend_pid()")[0][0];
}

void session::hear(void *self, const PGresult *notice)
{
    auto &me = *static_cast<session *>(self);
    const auto message = field(notice, PG_DIAG_MESSAGE_PRIMARY);
    if (message.starts_with(point_prefix))
        me.points_.push_back(message.substr(point_prefix.size()));
    else if (message.find("leak") != std::string::npos) { // a table or a page that was left open
        me.answer_.error = "leak";
        me.answer_.message = message;
    } else if (field(notice, PG_DIAG_SEVERITY_NONLOCALIZED) == "WARNING")
        me.answer_.warnings.push_back({field(notice, PG_DIAG_SQLSTATE), field(notice, PG_DIAG_MESSAGE_DETAIL)});
}

void session::send(const std::string &sql)
{
    points_.clear();
    rows_.clear();
    answer_ = {};
    answer_.begun = now();
    if (!PQsendQuery(connection_.get(), sql.c_str()))
        throw std::runtime_error(PQerrorMessage(connection_.get()));
}

void session::note(const PGresult *result)
{
    if (PQresultStatus(result) == PGRES_FATAL_ERROR) {
        answer_.error = field(result, PG_DIAG_SQLSTATE);
        answer_.message = field(result, PG_DIAG_MESSAGE_PRIMARY);
        answer_.detail = field(result, PG_DIAG_MESSAGE_DETAIL);
        if (answer_.error.empty())
            throw std::runtime_error(PQerrorMessage(connection_.get()));
    }
    if (const std::string_view affected = PQcmdTuples(const_cast<PGresult *>(result)); !affected.empty())
        answer_.affected = std::stoi(std::string{affected});
    if (PQresultStatus(result) != PGRES_TUPLES_OK)
        return;
    rows_.clear();
    for (int row = 0; row < PQntuples(result); row++) {
        rows_.emplace_back();
        for (int column = 0; column < PQnfields(result); column++)
            rows_.back().emplace_back(PQgetvalue(result, row, column));
    }
    if (!rows_.empty() && !rows_.back().empty())
        answer_.value = rows_.back()[0];
}

bool session::has_ended(std::chrono::milliseconds patience)
{
    const auto points_before = points_.size();
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        while (!PQisBusy(connection_.get())) {
            const std::unique_ptr<PGresult, decltype(&PQclear)> result{PQgetResult(connection_.get()), &PQclear};
            if (!result) {
                answer_.ended = now();
                return true;
            }
            note(result.get());
        }
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        pollfd wanted{PQsocket(connection_.get()), POLLIN, 0};
        if (points_.size() > points_before || left.count() <= 0 ||
            poll(&wanted, 1, static_cast<int>(left.count())) == 0)
            return false;
        if (!PQconsumeInput(connection_.get()))
            throw std::runtime_error(PQerrorMessage(connection_.get()));
    }
}

answer session::ask(const std::string &sql)
{
    send(sql);
    while (!has_ended(too_long))
        if (points_.empty())
            throw std::runtime_error("no answer to: " + sql);
    return answer_;
}

rows session::query(const std::string &sql)
{
    if (const auto given = ask(sql); !given.error.empty())
        throw std::runtime_error(sql + ": " + given.message);
    return rows_;
}

void session::leave_transaction()
{
    if (is_in_transaction())
        PQclear(PQexec(connection_.get(), "ROLLBACK"));
}
