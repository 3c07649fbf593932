#include "session.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace shedlock::internal {

// A socket descriptor of our own: libpq closes its own when a connection breaks, and the number may then be somebody
// else's file, which another thread must not shut down.
class socket_handle {
public:
    explicit socket_handle(int descriptor) : copy_{::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)} {}
    ~socket_handle() { ::close(copy_); }
    socket_handle(socket_handle const &) = delete;
    socket_handle &operator=(socket_handle const &) = delete;
    void cut() const noexcept { ::shutdown(copy_, SHUT_RDWR); }

private:
    int copy_;
};

struct session::link {
    explicit link(std::string const &connection) : to_server{connection}, notices{to_server}, socket{to_server.sock()}
    {
        libpqxx::never_reconnect(to_server);
    }

    pqxx::connection to_server;
    libpqxx::notices notices;
    socket_handle socket;
};

namespace {

// Changes with the interface that we use: 1.x, at least this.
constexpr int needed_major = 1;
constexpr int needed_minor = 0;

bool is_one_of(std::string_view state, std::initializer_list<std::string_view> some)
{
    for (auto const one : some)
        if (state.substr(0, one.size()) == one)
            return true;
    return false;
}

// Terminated by an administrator or a crash, shutting down, or any other trouble with the connection.
bool breaks_connection(std::string_view state)
{
    return is_one_of(state, {"08", "57P"});
}

bool names_nothing(std::string_view state)
{
    return is_one_of(state, {"3F000", "42883", "42P01"});
}

[[noreturn]] void raise(std::string const &message, std::string const &state)
{
    if (state == "SL001")
        throw lock_lost{message, state};
    if (state == "25006")
        throw connection_error{
            message + ". This server takes no writes: name all hosts of the cluster in the connection string, "
                      "with target_session_attrs=read-write",
            state};
    if (state == "42501")
        throw usage_error{message +
                              ". An administrator can allow it: SELECT shedlock_grant('role'), with admin => true for "
                              "pause, resume, force_release and doctor; GRANT USAGE ON SCHEMA if it is the schema",
                          state};
    if (is_one_of(state, {"22", "3F", "42", "55000"}))
        throw usage_error{message, state};
    throw error{message, state};
}

void require_version(std::string const &version)
{
    int major = 0, minor = 0;
    std::sscanf(version.c_str(), "%d.%d", &major, &minor);
    if (major == needed_major && minor >= needed_minor)
        return;
    auto const needed = std::to_string(needed_major) + "." + std::to_string(needed_minor);
    throw usage_error{"extension shedlock is version " + version + " here, this client needs " + needed +
                      " or a later " + std::to_string(needed_major) +
                      ".x: " + (major > needed_major ? "install a newer client" : "ALTER EXTENSION shedlock UPDATE")};
}

} // namespace

std::string one_line(std::string_view message)
{
    if (auto const severity = message.find(":  "); severity < message.find_first_of(" \n"))
        message.remove_prefix(severity + 3);
    std::string line;
    for (char const letter : message) {
        if (letter == '\t')
            continue;
        if (letter != '\n')
            line += letter;
        else if (!line.empty() && line.back() != ' ')
            line += line.back() == '.' || line.back() == ':' ? " " : ". ";
    }
    while (!line.empty() && (line.back() == ' ' || line.back() == '.'))
        line.pop_back();
    for (auto const *label : {"DETAIL:  ", "HINT:  "})
        if (auto const at = line.find(label); at != line.npos)
            line.erase(at, std::string_view{label}.size());
    return line;
}

std::string with_defaults(std::string const &connection, std::chrono::milliseconds timeout, bool to_write)
{
    std::vector<std::string> ours{"client_encoding=UTF8", "fallback_application_name=shedlock"};
    if (!std::getenv("PGCONNECT_TIMEOUT"))
        ours.push_back("connect_timeout=" + std::to_string(std::chrono::ceil<std::chrono::seconds>(timeout).count()));
    if (to_write && !std::getenv("PGTARGETSESSIONATTRS"))
        ours.emplace_back("target_session_attrs=read-write");

    bool const is_uri = connection.starts_with("postgresql://") || connection.starts_with("postgres://");
    std::string joined;
    for (auto const &parameter : ours)
        joined += parameter + (is_uri ? '&' : ' ');
    if (!is_uri)
        return joined + connection;
    auto const query = connection.find('?');
    if (query != connection.npos)
        return connection.substr(0, query + 1) + joined + connection.substr(query + 1);
    joined.pop_back();
    return connection + '?' + joined;
}

session::session(std::string connection, std::chrono::milliseconds patience, timer &timer)
    : connection_{std::move(connection)}, patience_{patience}, timer_{timer}
{
}

session::~session() = default;

void session::open()
{
    std::lock_guard const hold{mutex_};
    open_link();
}

void session::open_link()
{
    if (link_ && link_->to_server.is_open() && !schema_.empty())
        return;
    link_.reset();
    schema_.clear();
    try {
        link_ = std::make_unique<link>(connection_);
    } catch (pqxx::failure const &failure) {
        throw connection_error{"cannot connect to PostgreSQL: " + one_line(failure.what())};
    }
    find_extension();
}

// By asking the catalog, not by search_path: it works with any, also with one under which others have put functions of
// our names. Once a connection. In a database in SQL_ASCII the server refuses to show as UTF-8 what is none, and one
// such name would hide all locks: there bytes come as they are.
void session::find_extension()
try {
    auto const found =
        send("SELECT pg_catalog.quote_ident(n.nspname), e.extversion, pg_catalog.current_database(),"
             "       CASE WHEN pg_catalog.getdatabaseencoding() OPERATOR(pg_catalog.=) 'SQL_ASCII'::pg_catalog.name"
             "           THEN pg_catalog.set_config('client_encoding', 'SQL_ASCII', false) END"
             "  FROM (SELECT) AS one"
             "  LEFT JOIN pg_catalog.pg_extension e ON e.extname OPERATOR(pg_catalog.=) 'shedlock'"
             "  LEFT JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace",
             {}, patience_)
            .rows;
    if (found[0][0].is_null())
        throw usage_error{std::string{"extension shedlock is not installed in database \""} + found[0][2].c_str() +
                          "\": an administrator must run CREATE EXTENSION shedlock there"};
    require_version(found[0][1].c_str());
    schema_ = found[0][0].c_str();
} catch (reply_lost const &failure) {
    throw connection_error{failure.what(), failure.sqlstate()}; // the request that matters has not been sent yet
}

// ALTER EXTENSION ... SET SCHEMA, while we were connected.
bool session::has_moved()
{
    auto const before = schema_;
    find_extension();
    return schema_ != before;
}

std::string session::in_schema(std::string_view sql)
{
    std::lock_guard const hold{mutex_};
    open_link();
    return filled(sql);
}

std::string session::filled(std::string_view sql)
{
    constexpr std::string_view placeholder = "@extschema@";
    std::string text{sql};
    for (auto at = text.find(placeholder); at != text.npos; at = text.find(placeholder, at + schema_.size()))
        text.replace(at, placeholder.size(), schema_);
    return text;
}

reply session::ask(std::string_view sql, libpqxx::parameters const &values,
                   std::optional<std::chrono::milliseconds> patience)
{
    std::lock_guard const hold{mutex_};
    open_link();
    try {
        return send(filled(sql), values, patience.value_or(patience_));
    } catch (usage_error const &failure) {
        if (!names_nothing(failure.sqlstate()) || !has_moved())
            throw;
    }
    return send(filled(sql), values, patience.value_or(patience_));
}

reply session::send(std::string const &sql, libpqxx::parameters const &values, std::chrono::milliseconds patience)
{
    std::stop_source late;
    try {
        auto const cut = [&socket = link_->socket] { socket.cut(); };
        timer::alarm const alarm{timer_, clock::now() + patience, late};
        std::stop_callback const when_late{late.get_token(), cut};
        link_->notices.forget();
        pqxx::nontransaction transaction{link_->to_server};
        reply answer{libpqxx::exec(transaction, sql, values), {}};
        for (auto const &text : link_->notices.since_forgotten())
            answer.notice += (answer.notice.empty() ? "" : "; ") + one_line(text);
        return answer;
    } catch (pqxx::failure const &failure) {
        auto const state = libpqxx::sqlstate(failure);
        auto const message = one_line(failure.what());
        bool const broken = state.empty() || breaks_connection(state) || !link_->to_server.is_open();
        if (broken || state == "25006") // after a fail-over another host may take writes
            link_.reset();
        if (!broken)
            raise(message, state);
        throw reply_lost{late.stop_requested()
                             ? "PostgreSQL did not answer within " + std::to_string(patience.count()) + " ms"
                             : "the connection to PostgreSQL broke: " + message,
                         state};
    }
}

} // namespace shedlock::internal
