#include "session.hpp"

#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

std::int64_t from_big_endian(std::string_view bytes)
{
    std::uint64_t result = 0;
    for (const unsigned char byte : bytes)
        result = result << 8 | byte;
    return static_cast<std::int64_t>(result);
}

std::string value_of(const PGresult *result, int line, int column)
{
    return {PQgetvalue(result, line, column), static_cast<std::size_t>(PQgetlength(result, line, column))};
}

std::string field_of(const PGresult *result, int field)
{
    const char *const text = PQresultErrorField(result, field);
    return text ? text : "";
}

// The schemas' names are in some messages.
std::string text_of(const PGresult *result)
{
    auto text = field_of(result, PG_DIAG_MESSAGE_PRIMARY);
    for (const auto field : {PG_DIAG_MESSAGE_DETAIL, PG_DIAG_MESSAGE_HINT})
        text += "|" + field_of(result, field);
    for (auto at = text.find("portable."); at != std::string::npos; at = text.find("portable."))
        text.replace(at, 9, "extension.");
    return text;
}

// A notice receiver.
void hear(void *warnings, const PGresult *notice)
{
    if (field_of(notice, PG_DIAG_SEVERITY_NONLOCALIZED) == "WARNING")
        static_cast<std::vector<std::string> *>(warnings)->push_back(field_of(notice, PG_DIAG_SQLSTATE) + " " +
                                                                     text_of(notice));
}

// The file of server_clock.
std::atomic<std::int64_t> *time_of_process(int pid)
{
    const int file = ::open(std::getenv("SERVER_CLOCK"), O_RDWR | O_CLOEXEC);
    const auto page = static_cast<std::size_t>(pid) / 512;
    void *const memory =
        ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(page * 4096));
    if (memory == MAP_FAILED)
        throw std::runtime_error("cannot map SERVER_CLOCK");
    return static_cast<std::atomic<std::int64_t> *>(memory) + pid % 512;
}

} // namespace

session::session(const std::string &database, const std::string &isolation, const std::string &default_at_most)
    : connection_(PQconnectdb(("application_name='fuzz' dbname=" + database).c_str()), &PQfinish)
{
    if (PQstatus(connection_.get()) != CONNECTION_OK)
        fail("cannot connect");
    PQsetNoticeReceiver(connection_.get(), hear, &warnings_);
    query("SELECT set_config('client_encoding', getdatabaseencoding(), false)");
    query("SET client_min_messages = warning; SET default_transaction_isolation = '" + isolation + "'");
    if (!default_at_most.empty())
        query("SET shedlock.default_at_most = '" + default_at_most + "'");
    mark_ = query("SELECT concat('/', pid, '.', (extract(epoch FROM backend_start) * 1000000)::bigint, '.', "
                  "lpad(to_hex(hashint8((pg_control_system()).system_identifier)), 8, '0')) FROM pg_stat_activity "
                  "WHERE pid = pg_backend_pid()")[0][0];
    sessions()[mark_] = true;
    time_ = time_of_process(PQbackendPID(connection_.get()));
}

session::~session()
{
    const auto pid = PQbackendPID(connection_.get());
    *time_ = 0;
    connection_.reset();
    while (::kill(pid, 0) == 0)
        std::this_thread::yield();
    sessions()[mark_] = false;
}

std::map<std::string, bool> &session::sessions()
{
    static std::map<std::string, bool> all;
    return all;
}

void session::set_clock(moment now)
{
    *time_ = now + epoch_difference;
}

moment session::clock() const
{
    return *time_ - epoch_difference;
}

void session::fail(const std::string &what) const
{
    throw std::runtime_error(what + ": " + PQerrorMessage(connection_.get()));
}

session::result session::send(const std::string &sql, const std::vector<value> &arguments)
{
    std::vector<Oid> types;
    std::vector<const char *> values;
    std::vector<int> lengths;
    const std::vector<int> formats(arguments.size(), 1);
    for (const auto &[type, bytes, shown] : arguments) {
        types.push_back(type);
        values.push_back(bytes ? bytes->data() : nullptr);
        lengths.push_back(bytes ? static_cast<int>(bytes->size()) : 0);
    }
    ::alarm(600); // a call that wrongly waits must not hang the test
    result made{PQexecParams(connection_.get(), sql.c_str(), static_cast<int>(arguments.size()), types.data(),
                             values.data(), lengths.data(), formats.data(), 1),
                &PQclear};
    if (PQstatus(connection_.get()) != CONNECTION_OK)
        fail("the connection broke");
    return made;
}

reply session::make(const call &made, const std::string &schema)
{
    const bool is_run = made.function == "run";
    auto sql = (is_run ? "CALL " : "SELECT ") + schema + ".shedlock_" + std::string{made.function} + "(";
    std::vector<value> values;
    for (const auto &[name, value] : made.arguments) {
        values.push_back(value);
        sql += (values.size() > 1 ? ", " : "") + std::string{name} + " => $" + std::to_string(values.size());
    }
    warnings_.clear();
    const auto answer = send(sql + (is_run ? ", executed => NULL)" : ")"), values);
    if (PQresultStatus(answer.get()) != PGRES_TUPLES_OK)
        return {field_of(answer.get(), PG_DIAG_SQLSTATE), text_of(answer.get()), false, "", warnings_};
    return {"", "", PQgetisnull(answer.get(), 0, 0) != 0, value_of(answer.get(), 0, 0), warnings_};
}

std::vector<std::vector<std::string>> session::query(const std::string &sql)
{
    const result found{PQexec(connection_.get(), sql.c_str()), &PQclear};
    if (PQresultStatus(found.get()) != PGRES_TUPLES_OK && PQresultStatus(found.get()) != PGRES_COMMAND_OK)
        fail(sql);
    std::vector<std::vector<std::string>> lines(static_cast<std::size_t>(PQntuples(found.get())));
    for (int line = 0; line < PQntuples(found.get()); line++)
        for (int column = 0; column < PQnfields(found.get()); column++)
            lines[static_cast<std::size_t>(line)].push_back(value_of(found.get(), line, column));
    return lines;
}

rows session::rows_of(const std::string &schema, const std::vector<std::string> &names)
{
    const auto found = send("SELECT name, lock_until, locked_at, locked_by, lock_at_least_until, last_tick, "
                            "last_done_tick, last_done_at, run_tick FROM " +
                                schema + ".shedlock WHERE name = ANY ($1)",
                            {text_array({names.begin(), names.end()})});
    if (PQresultStatus(found.get()) != PGRES_TUPLES_OK)
        fail("cannot look");
    rows all;
    for (int line = 0; line < PQntuples(found.get()); line++) {
        const auto time = [&](int column) { return from_big_endian(value_of(found.get(), line, column)); };
        const auto time_if_any = [&](int column) {
            return PQgetisnull(found.get(), line, column) ? std::nullopt : std::optional{time(column)};
        };
        all[value_of(found.get(), line, 0)] = {time(1),        time(2),        value_of(found.get(), line, 3),
                                               time_if_any(4), time_if_any(5), time_if_any(6),
                                               time_if_any(7), time_if_any(8)};
    }
    return all;
}

bool session::is_valid(const std::string &text)
{
    return PQresultStatus(send("SELECT $1", {text_value(text)}).get()) == PGRES_TUPLES_OK;
}

std::string session::quoted(const std::string &text) const
{
    const std::unique_ptr<char, decltype(&PQfreemem)> literal{
        PQescapeLiteral(connection_.get(), text.data(), text.size()), &PQfreemem};
    return literal.get();
}
