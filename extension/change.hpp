// Changes an existing row: extend and release by its owner, force_release and resume by administrators. All of them
// wait for a transaction in progress that has changed or locked the row; acquire and forget never do.
#pragma once

#include "history_table.hpp"
#include "lock_table.hpp"
#include "request.hpp"

namespace shedlock {

// Returns true when all locks were ours and live, and are extended now. Otherwise returns false and changes no row; a
// WARNING says which lock was not ours and why (SL001, or SL002 if the only obstacles are releases as done). With
// nowait, returns nothing and changes no row if another transaction in progress has changed or locked one of the rows.
std::optional<bool> extend(lock_table &table, const extend_request &request, const identity &who, bool nowait = false);

// The same for a release. Without `tell` there is no WARNING.
std::optional<bool> release(lock_table &table, const release_request &request, const identity &who, bool tell = true);

// Writes a release over what was seen, which is ours and not released, and records the run. Returns false as rewrite
// does.
bool write_release(const lock_table &table, const history_table &history, seen_row &seen, instant now, bool done,
                   std::string_view detail = {});

// Frees the lock, whoever holds it, and gives the row a new token, so that the old holder's token is lost and its
// guarded transactions fail. Returns whether it was held; false if there is no row.
bool force_release(lock_table &table, const lock_name &name);

// Returns true when the lock was paused and is free now; otherwise false, with a WARNING.
bool resume(lock_table &table, const lock_name &name);

} // namespace shedlock
