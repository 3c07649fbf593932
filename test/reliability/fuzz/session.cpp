#include "session.hpp"

#include <stdexcept>

namespace {

constexpr Oid bool_type = 16, int8_type = 20, text_type = 25, text_array_type = 1009, timestamptz_type = 1184,
              interval_type = 1186;

using result_pointer = std::unique_ptr<PGresult, decltype(&PQclear)>;

template <typename T> std::string big_endian(T value)
{
    std::string result(sizeof(T), '\0');
    for (std::size_t i = 0; i < sizeof(T); i++)
        result[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * (sizeof(T) - 1 - i)));
    return result;
}

std::int64_t from_big_endian(std::string_view bytes)
{
    std::uint64_t result = 0;
    for (const unsigned char byte : bytes)
        result = result << 8 | byte;
    return static_cast<std::int64_t>(result);
}

// The format of array_send.
std::string encoded_array(const std::vector<std::optional<std::string>> &elements, std::int32_t dimensions,
                          std::int32_t lower_bound)
{
    auto result =
        big_endian<std::int32_t>(dimensions) + big_endian<std::int32_t>(1) + big_endian<std::int32_t>(text_type);
    for (std::int32_t i = 0; i < dimensions; i++)
        result += big_endian(i == 0 ? static_cast<std::int32_t>(elements.size()) : 1) + big_endian(lower_bound);
    if (dimensions == 0)
        return result;
    for (const auto &element : elements)
        result +=
            element ? big_endian(static_cast<std::int32_t>(element->size())) + *element : big_endian<std::int32_t>(-1);
    return result;
}

std::optional<std::string> encoded(const std::optional<std::int64_t> &value)
{
    return value ? std::optional{big_endian(*value)} : std::nullopt;
}

std::optional<std::string> encoded(const std::optional<bool> &value)
{
    return value ? std::optional{std::string(1, static_cast<char>(*value))} : std::nullopt;
}

std::optional<std::string> encoded(const std::optional<interval> &i)
{
    return i ? std::optional{big_endian(i->microseconds) + big_endian(i->days) + big_endian(i->months)} : std::nullopt;
}

std::optional<std::string> argument(const call &made, char letter)
{
    switch (letter) {
    case 'n':
        if (made.name_is_null)
            return std::nullopt;
        return made.is_array ? encoded_array(made.names, made.dimensions, made.lower_bound) : made.names.front();
    case 'k':
        return encoded(made.token);
    case 'm':
        return encoded(made.at_most);
    case 'l':
        return encoded(made.at_least);
    case 'w':
        return encoded(made.wait);
    case 't':
        return encoded(made.tick);
    case 'r':
        return encoded(made.retry);
    case 's':
        return encoded(made.start_within);
    case 'd':
        return encoded(made.done);
    case 'e':
        return encoded(made.ends_with_session);
    default:
        return made.text;
    }
}

Oid type_of(char letter, bool is_array)
{
    return letter == 'n'                                                      ? (is_array ? text_array_type : text_type)
           : letter == 'k'                                                    ? int8_type
           : letter == 't'                                                    ? timestamptz_type
           : letter == 'r' || letter == 'd' || letter == 'e'                  ? bool_type
           : letter == 'm' || letter == 'l' || letter == 'w' || letter == 's' ? interval_type
                                                                              : text_type;
}

std::string statement_name(function what, bool is_array)
{
    return signature_of(what).name + std::string{is_array ? " all" : " one"};
}

void send(PGconn *connection, const std::string &statement, const std::vector<std::optional<std::string>> &arguments)
{
    std::vector<const char *> values;
    std::vector<int> lengths;
    const std::vector<int> formats(arguments.size(), 1);
    for (const auto &one : arguments) {
        values.push_back(one ? one->data() : nullptr);
        lengths.push_back(one ? static_cast<int>(one->size()) : 0);
    }
    if (!PQsendQueryPrepared(connection, statement.c_str(), static_cast<int>(arguments.size()), values.data(),
                             lengths.data(), formats.data(), 1) ||
        !PQpipelineSync(connection))
        throw std::runtime_error(PQerrorMessage(connection));
}

std::string value_of(const PGresult *result, int line, int column)
{
    return {PQgetvalue(result, line, column), static_cast<std::size_t>(PQgetlength(result, line, column))};
}

// Reads the rows of a query for `columns` (below), which begin at the result's column `first`.
rows rows_of(const PGresult *result, int first)
{
    rows found;
    for (int line = 0; line < PQntuples(result); line++) {
        if (PQgetisnull(result, line, first))
            continue;
        const auto time = [&](int column) { return from_big_endian(value_of(result, line, first + column)); };
        const auto time_if_any = [&](int column) {
            return PQgetisnull(result, line, first + column) ? std::nullopt : std::optional{time(column)};
        };
        found[value_of(result, line, first)] = {time(1),        time(2),        value_of(result, line, first + 3),
                                                time_if_any(4), time_if_any(5), time_if_any(6),
                                                time_if_any(7), time_if_any(8)};
    }
    return found;
}

// A notice receiver: keeps the SQLSTATE of each WARNING.
void hear(void *warnings, const PGresult *notice)
{
    const char *const severity = PQresultErrorField(notice, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (severity && std::string_view{severity} == "WARNING")
        static_cast<std::vector<std::string> *>(warnings)->emplace_back(PQresultErrorField(notice, PG_DIAG_SQLSTATE));
}

constexpr const char *columns = "s.name, s.lock_until, s.locked_at, s.locked_by, s.lock_at_least_until, s.last_tick, "
                                "s.last_done_tick, s.last_done_at, s.run_tick";

} // namespace

std::int64_t outcome::number() const
{
    return from_big_endian(value);
}

session::session(const std::string &database, const std::string &isolation, const std::string &default_at_most_setting)
    : connection_(PQconnectdb(("application_name='fuzz' dbname=" + database).c_str()), &PQfinish)
{
    if (PQstatus(connection_.get()) != CONNECTION_OK)
        fail("cannot connect");
    PQsetNoticeReceiver(connection_.get(), hear, &warnings_);
    query("SELECT set_config('client_encoding', getdatabaseencoding(), false)");
    // A call that wrongly waits for a lock must not hang the test.
    query("SET statement_timeout = '5min'; SET client_min_messages = warning; SET default_transaction_isolation = '" +
          isolation + "'");
    if (!default_at_most_setting.empty())
        query("SET shedlock.default_at_most = '" + default_at_most_setting + "'");
    mark_ = query("SELECT concat('/', pid, '.', (extract(epoch FROM backend_start) * 1000000)::bigint, '.', "
                  "lpad(to_hex(hashint8((pg_control_system()).system_identifier)), 8, '0')) FROM pg_stat_activity "
                  "WHERE pid = pg_backend_pid()")[0][0];
    sessions()[mark_] = true;
    prepare();
    PQenterPipelineMode(connection_.get());
}

session::~session()
{
    sessions()[mark_] = false;
}

std::map<std::string, bool> &session::sessions()
{
    static std::map<std::string, bool> all;
    return all;
}

void session::prepare()
{
    for (int i = 0; i < functions; i++) {
        const auto what = static_cast<function>(i);
        const auto &[name, letters, takes_arrays] = signature_of(what);
        const bool is_run = what == function::run;
        for (const bool is_array : {false, true}) {
            if (is_array && !takes_arrays)
                continue;
            auto sql = std::string{is_run ? "CALL " : "SELECT "} + name + "(";
            std::vector<Oid> types;
            for (const char letter : letters) {
                types.push_back(type_of(letter, is_array));
                sql += (types.size() > 1 ? ", $" : "$") + std::to_string(types.size());
            }
            sql += is_run ? ", NULL)" : ")";
            const result_pointer made{PQprepare(connection_.get(), statement_name(what, is_array).c_str(), sql.c_str(),
                                                static_cast<int>(types.size()), types.data()),
                                      &PQclear};
            if (PQresultStatus(made.get()) != PGRES_COMMAND_OK)
                fail(sql);
        }
    }
    const auto look = std::string{"SELECT c.now, "} + columns +
                      " FROM (SELECT clock_timestamp() AS now OFFSET 0) c LEFT JOIN shedlock s ON s.name = ANY ($1)";
    query("PREPARE clock AS SELECT clock_timestamp(); PREPARE look(text[]) AS " + look);
}

void session::fail(const std::string &what) const
{
    throw std::runtime_error(what + ": " + PQerrorMessage(connection_.get()));
}

result_pointer session::next_result()
{
    result_pointer result{PQgetResult(connection_.get()), &PQclear};
    if (!result || PQstatus(connection_.get()) != CONNECTION_OK)
        fail("the connection broke");
    return result;
}

// Fails unless the statement has no further result, and is followed by the result of its pipeline sync.
void session::finish_statement()
{
    const result_pointer end{PQgetResult(connection_.get()), &PQclear};
    if (end || PQresultStatus(next_result().get()) != PGRES_PIPELINE_SYNC)
        fail("an unexpected reply");
}

outcome session::make(const call &made, const std::set<std::string> &to_look_at)
{
    std::vector<std::optional<std::string>> arguments;
    for (const char letter : signature_of(made.what).arguments)
        arguments.push_back(argument(made, letter));
    warnings_.clear();
    send(connection_.get(), "clock", {});
    send(connection_.get(), statement_name(made.what, made.is_array), arguments);
    send(connection_.get(), "look", {encoded_array({to_look_at.begin(), to_look_at.end()}, 1, 1)});

    outcome result{};
    result.before = from_big_endian(value_of(next_result().get(), 0, 0));
    finish_statement();
    {
        const auto answer = next_result();
        if (PQresultStatus(answer.get()) == PGRES_TUPLES_OK) {
            result.is_null = PQgetisnull(answer.get(), 0, 0);
            result.value = value_of(answer.get(), 0, 0);
        } else {
            const char *const sqlstate = PQresultErrorField(answer.get(), PG_DIAG_SQLSTATE);
            result.error = sqlstate ? sqlstate : PQerrorMessage(connection_.get());
        }
    }
    finish_statement();
    const auto after = next_result();
    if (PQresultStatus(after.get()) != PGRES_TUPLES_OK)
        fail("cannot look");
    result.after = from_big_endian(value_of(after.get(), 0, 0));
    result.found = rows_of(after.get(), 1);
    finish_statement();
    result.warnings = warnings_;
    return result;
}

std::vector<std::vector<std::string>> session::query(const std::string &sql)
{
    const bool was_pipeline = PQpipelineStatus(connection_.get()) != PQ_PIPELINE_OFF;
    if (was_pipeline)
        PQexitPipelineMode(connection_.get());
    const result_pointer result{PQexec(connection_.get(), sql.c_str()), &PQclear};
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK && PQresultStatus(result.get()) != PGRES_COMMAND_OK)
        fail(sql);
    if (was_pipeline)
        PQenterPipelineMode(connection_.get());
    std::vector<std::vector<std::string>> lines(static_cast<std::size_t>(PQntuples(result.get())));
    for (int line = 0; line < PQntuples(result.get()); line++)
        for (int column = 0; column < PQnfields(result.get()); column++)
            lines[static_cast<std::size_t>(line)].push_back(value_of(result.get(), line, column));
    return lines;
}

std::string session::quoted(const std::string &text) const
{
    const std::unique_ptr<char, decltype(&PQfreemem)> literal{
        PQescapeLiteral(connection_.get(), text.data(), text.size()), &PQfreemem};
    return literal.get();
}

void session::edit(const std::string &name, const std::string &assignments)
{
    query((assignments.empty() ? "DELETE FROM shedlock" : "UPDATE shedlock SET " + assignments) +
          " WHERE name = " + quoted(name));
}

void session::insert(const std::string &name)
{
    query("INSERT INTO shedlock (name, lock_until, locked_at, locked_by) VALUES (" + quoted(name) +
          ", '2026-01-01', '2026-01-01', 'host') ON CONFLICT DO NOTHING");
}

rows session::all_rows()
{
    PQexitPipelineMode(connection_.get());
    const auto sql = std::string{"SELECT "} + columns + " FROM shedlock s";
    const result_pointer result{PQexecParams(connection_.get(), sql.c_str(), 0, nullptr, nullptr, nullptr, nullptr, 1),
                                &PQclear};
    if (PQresultStatus(result.get()) != PGRES_TUPLES_OK)
        fail(sql);
    PQenterPipelineMode(connection_.get());
    return rows_of(result.get(), 0);
}
