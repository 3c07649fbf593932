#include "durability.hpp"

#include "settings.hpp"

namespace shedlock::durability {

namespace {

// Of the current transaction.
bool is_required = false;
bool has_released = false;
bool only_released = true; // as far as WAL positions tell
XLogRecPtr end_of_release = InvalidXLogRecPtr;
std::optional<int> replaced; // what synchronous_commit was before this commit

void set(int value)
{
    synchronous_commit = value;
    assign_synchronous_commit(value, nullptr); // tells the wait for standbys
}

// SET LOCAL would do it, at the price of a tenth of the call. Nobody can look at the setting or change it between
// PRE_COMMIT and the end of the transaction.
void set_for_this_commit(int value)
{
    replaced = synchronous_commit;
    set(value);
}

// The session's own setting is not to be trusted: behind a pooler it may be a stranger's.
void wait_for_standbys()
{
    if (synchronous_commit < SYNCHRONOUS_COMMIT_REMOTE_FLUSH)
        set_for_this_commit(SYNCHRONOUS_COMMIT_ON);
}

} // namespace

void required()
{
    is_required = true;
    ForceSyncCommit();
}

// XactLastRecEnd is where this transaction's last WAL record ended, 0 if it wrote none. Whatever else it writes before,
// between or after its releases moves it, a page pruned by a SELECT included, and then the commit waits as always.
void before_release()
{
    if (XactLastRecEnd != end_of_release)
        only_released = false;
}

void after_release()
{
    has_released = true;
    end_of_release = XactLastRecEnd;
}

void at_pre_commit()
{
    if (is_required)
        wait_for_standbys();
    else if (has_released && only_released && XactLastRecEnd == end_of_release && settings::async_release() &&
             synchronous_commit > SYNCHRONOUS_COMMIT_OFF)
        set_for_this_commit(SYNCHRONOUS_COMMIT_OFF);
}

void at_pre_prepare()
{
    if (is_required)
        wait_for_standbys();
}

void at_end()
{
    if (replaced)
        set(*replaced);
    replaced.reset();
    is_required = false;
    has_released = false;
    only_released = true;
    end_of_release = InvalidXLogRecPtr;
}

} // namespace shedlock::durability
