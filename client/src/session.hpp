// A connection to a database with the extension. Opened when first asked, and again after it broke. Any thread may ask
// at any time; requests wait for each other.
#pragma once

#include "libpqxx.hpp"
#include "timer.hpp"

namespace shedlock::internal {

// The request may have been carried out, and its reply is lost.
class reply_lost : public connection_error {
public:
    using connection_error::connection_error;
};

struct reply {
    pqxx::result rows;
    std::string notice; // empty: the server said nothing beside
};

class session {
public:
    session(std::string connection, std::chrono::milliseconds patience, timer &);
    ~session();

    // Opens the connection unless it is open. Throws connection_error; usage_error when the extension is not there or
    // of another version.
    void open();

    // One statement, a transaction of its own. @extschema@ in it stands for the extension's schema. No answer within
    // the patience, by default the session's: the connection is cut. Throws reply_lost; connection_error when the
    // request was not sent or the server takes no writes; otherwise the error that the server reported, and then
    // nothing has happened.
    reply ask(std::string_view sql, libpqxx::parameters const &,
              std::optional<std::chrono::milliseconds> patience = {});
    [[nodiscard]] std::chrono::milliseconds patience() const noexcept { return patience_; }

    // The statement as ask would send it, for a transaction of the application's own.
    std::string in_schema(std::string_view sql);

private:
    struct link;
    void open_link();
    void find_extension();
    bool has_moved();
    std::string filled(std::string_view sql);
    reply send(std::string const &sql, libpqxx::parameters const &, std::chrono::milliseconds patience);

    std::string const connection_;
    std::chrono::milliseconds const patience_;
    timer &timer_;

    std::mutex mutex_; // for what follows; every public function takes it
    std::unique_ptr<link> link_;
    std::string schema_; // quoted
};

// Puts our defaults before what is given, which therefore wins.
std::string with_defaults(std::string const &connection, std::chrono::milliseconds timeout, bool to_write);

// The server's message in one line, without its severity.
std::string one_line(std::string_view message);

} // namespace shedlock::internal
