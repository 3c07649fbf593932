// The server under test, past the client: what its rows say, and what may befall its sessions.
#pragma once

#include <chrono>
#include <functional>
#include <pqxx/pqxx>
#include <string>

namespace server {

// The first field of the first row, or "" (also for NULL). Each time over a connection of its own.
std::string ask(std::string const &sql);
std::string literal(std::string const &text);

// By with-portable.
bool is_portable();

// Where clients connect: straight, or through the pooler that SHEDLOCK_TEST_CONNECTION names.
std::string connection();
std::string host();
std::string port();

std::string state(std::string const &lock); // of shedlock_locks
std::string holder(std::string const &lock);
std::string last_outcome(std::string const &lock);
std::int64_t token(std::string const &lock);
std::chrono::microseconds remaining(std::string const &lock); // 0: free

// Ends its lease: by the row, as if at_most were over.
void end_lease(std::string const &lock);

// Somebody whose session lasts has asked for it, after it was last acquired, and does not ask now.
bool was_refused(std::string const &lock);

// Statements of others that contain this text and are running now: ends them, or their sessions. How many.
int cancel(std::string const &text);
int terminate(std::string const &text);

// A commit waits for a synchronous standby that does not exist, for as long as this lives.
class missing_standby {
public:
    missing_standby();
    ~missing_standby();
    missing_standby(missing_standby const &) = delete;
    missing_standby &operator=(missing_standby const &) = delete;
};

// However busy the machine is, nothing takes longer.
inline constexpr std::chrono::minutes at_last{5};

// Polls until it is true. False after that time.
bool comes_true(std::function<bool()> const &condition);

} // namespace server
