// shedlock_history, the table in the schema of the lock table that gets a row for every run of ours, written by the
// transaction that ends the run. An administrator decides whether one is kept (keeping.hpp). It is written through heap
// and index, so no code of others runs; a table that would need more than that is not written.
#pragma once

#include "history_shape.hpp"
#include "request.hpp"
#include "row_finder.hpp"

namespace shedlock {

// How a run ended. ran_out: it was never released, and its lease is over.
enum class endings { done, failed, ran_out, freed };

// A run that is about to end. A copy, because the page of its row will be released.
struct ending_run {
    lock_name name;
    instant token;
    std::optional<instant> tick;
    std::string_view holder;
    instant lock_until;
};

class history_table {
public:
    // Opens it for writing if a history is kept. So it waits for DDL on it, and the caller must not have pinned a row
    // (see lock_table::wait_for_other). A WARNING, once per session, if the table cannot be written; then nothing will
    // be.
    static history_table open(const row_finder &locks);

    // The same for a caller that must not wait: nothing if it would have to.
    static std::optional<history_table> open_nowait(const row_finder &locks);

    // Opens that table, whether or not a history is kept. 55000 if it is not fit to be one; waits only for the owner of
    // the lock table, whose table it must be.
    static history_table open_any(Oid history, const row_finder &locks, LOCKMODE mode);

    // With keep_lock it stays locked until the transaction ends, as after a write.
    void close(bool keep_lock);

    // The run in the row that was seen, if it was not released, and if this was opened to record it.
    std::optional<ending_run> run_in(const row_finder &locks, const seen_row &seen) const;

    // Writes a row for that run, if there is one. A run that ran out ended with its lease or, if its session had gone
    // before that, now. Of a longer detail, the first 1000 characters are written.
    void add(const std::optional<ending_run> &run, endings how, instant now, std::string_view detail = {}) const;

    // A row without a name, which says that a history is kept from now on, or not.
    void add_marker(bool on, instant now) const;

    void put_rows(const history_request &request, ReturnSetInfo *result) const;

    // The table of that name in the lock table's schema, whatever it is and whoever owns it. Invalid: there is none.
    static Oid find(Oid locks);

    // Whether its owner may INSERT into it, which means that a history is kept.
    static bool is_kept(Oid history);

    // Why no rows are written although a history is kept, or null. Waits for DDL.
    static const char *fault(const row_finder &locks);

private:
    static std::optional<history_table> open_kept(const row_finder &locks, bool nowait);
    void insert(const Datum *values, const bool *nulls) const;

    Relation table_ = nullptr;
    history_shape shape_{};
};

} // namespace shedlock
