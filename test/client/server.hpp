// The server under test, without the client: what its rows say, and what may happen to its sessions.
#pragma once

#include <chrono>
#include <functional>
#include <pqxx/pqxx>
#include <string>

namespace server {

// The first field of the first row, or "" (also for NULL). Each time over a connection of its own, except within
// comes_true().
std::string ask(const std::string &sql);
std::string literal(const std::string &text);

// Whether with-portable was used.
bool is_portable();

// Where clients connect: directly, or through the pooler that SHEDLOCK_TEST_CONNECTION names.
std::string connection();
std::string host();
std::string port();

std::string state(const std::string &lock); // of shedlock_locks
std::string holder(const std::string &lock);
std::string last_outcome(const std::string &lock);
std::int64_t token(const std::string &lock);
std::chrono::microseconds remaining(const std::string &lock); // 0: free

// Ends the lock's lease by changing the row, as if at_most were over.
void end_lease(const std::string &lock);

// Whether a session that still exists has asked for a lock, or looked at shedlock_locks, since this lock was last
// acquired, and is not asking now.
bool was_refused(const std::string &lock);

// Cancel the statements of other sessions that contain this text and are running, or terminate their sessions. Return
// how many there were.
int cancel(const std::string &text);
int terminate(const std::string &text);

// While one of these lives, a commit waits for a synchronous standby that does not exist.
class missing_standby {
public:
    missing_standby();
    ~missing_standby();
    missing_standby(const missing_standby &) = delete;
    missing_standby &operator=(const missing_standby &) = delete;
};

bool a_commit_waits_for_the_standby();

// While one of these lives, the server records each run that ends.
class kept_history {
public:
    kept_history();
    ~kept_history();
    kept_history(const kept_history &) = delete;
    kept_history &operator=(const kept_history &) = delete;
    // A line for each run since then, the oldest first: its outcome, and ": " and the detail if it has one.
    [[nodiscard]] std::string of(const std::string &lock) const;

private:
    const std::string since_;
};

// The longest wait for an event. No event takes that long, however busy the machine is.
inline constexpr std::chrono::minutes at_last{5};

// Polls until it is true. Returns false if it is not true within at_last.
bool comes_true(const std::function<bool()> &condition);

} // namespace server
