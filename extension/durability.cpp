#include "durability.hpp"

#include "settings.hpp"

namespace shedlock::durability {

namespace {

// About the current transaction.
bool is_required = false;
bool has_released = false;
bool only_released = true; // as far as WAL positions show
XLogRecPtr end_of_release = InvalidXLogRecPtr;
std::optional<int> replaced; // the synchronous_commit from before this commit

void set(int value)
{
    synchronous_commit = value;
    assign_synchronous_commit(value, nullptr); // also sets what the wait for standbys reads
}

// SET LOCAL would do the same, but would take a tenth of the whole call's time. No SQL runs between PRE_COMMIT and the
// end of the transaction, so nobody else sees or changes the setting.
void set_for_this_commit(int value)
{
    replaced = synchronous_commit;
    set(value);
}

// Do not trust the session's own setting: behind a pooler, another client may have set it.
void make_commit_wait_for_standbys()
{
    if (synchronous_commit < SYNCHRONOUS_COMMIT_REMOTE_FLUSH)
        set_for_this_commit(SYNCHRONOUS_COMMIT_ON);
}

} // namespace

void require()
{
    is_required = true;
    ForceSyncCommit();
}

// XactLastRecEnd is the end of this transaction's last WAL record, or 0 if it wrote none. Any other write before,
// between or after the releases moves it, even a page pruned by a SELECT, and then the commit waits as usual.
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
        make_commit_wait_for_standbys();
    else if (has_released && only_released && XactLastRecEnd == end_of_release && settings::async_release() &&
             synchronous_commit > SYNCHRONOUS_COMMIT_OFF)
        set_for_this_commit(SYNCHRONOUS_COMMIT_OFF);
}

void at_pre_prepare()
{
    if (is_required)
        make_commit_wait_for_standbys();
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
