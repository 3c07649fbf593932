// The requests by which one call of acquire asks for its locks, and why they are refused.
#pragma once

#include "session.hpp"

namespace shedlock::internal {

// All requests of one call ask for the same names, holder and tick.
class acquire_request {
public:
    acquire_request(session &, const names &, const options &, bool ends_with_session);

    // Random digits with which the holder in our rows begins, so that we recognise them.
    const std::string mark;

    struct answer {
        std::optional<shedlock::token> token; // nullopt: refused
        clock::time_point sent;               // see reply
        std::string notices;                  // see reply; if not empty, the acquisition may be only on this server
    };
    // Asks once. If it is refused and `why` is given, stores the reason there, as it was after the attempt. Throws what
    // session::ask does, and usage_error if the lock is to end with the session but there is a pooler in between.
    answer ask(refusal *why, clock::time_point until, std::unique_ptr<connection> *unanswered_on);

    // The rows of the locks, and whether the tick is due. This only reads, so a lost reply leaves nothing in doubt: it
    // is a connection_error.
    std::vector<fields> look(clock::time_point until, const std::optional<instant> &tick);

    // Why these rows refuse it.
    [[nodiscard]] refusal explain(const std::vector<fields> &rows) const;

    // The tick of a schedule (`every` or `cron`) is known from the first answer on, or from our row if that answer was
    // lost.
    [[nodiscard]] const std::optional<instant> &tick() const { return tick_; }
    void learn_tick(const fields &own_row);

    // The tick of the schedule at the moment at which the server answers; nullopt without a schedule.
    std::optional<instant> tick_now(clock::time_point until);

private:
    void require_session() const;
    [[nodiscard]] bool has_schedule() const;
    [[nodiscard]] bool has_tick() const { return tick_ || has_schedule(); }
    [[nodiscard]] std::string rows_of_asked(const std::string &tick, bool older) const;
    [[nodiscard]] std::string tick_sql() const;
    [[nodiscard]] std::string tick_of_schedule(clock::duration ago) const;

    session &session_;
    const names &names_;
    const options &options_;
    const bool ends_with_session_;
    const std::string name_;
    const std::string arguments_;
    const clock::time_point called_ = clock::now();
    std::optional<instant> tick_;
};

// The token in the answer to an acquire; nullopt if that was refused.
std::optional<token> granted_by(const std::vector<fields> &rows);
token to_token(const std::optional<std::string> &field);

} // namespace shedlock::internal
