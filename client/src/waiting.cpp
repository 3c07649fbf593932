#include "waiting.hpp"

#include "literal.hpp"
#include "protocol.hpp"
#include "thread.hpp"

#include <algorithm>
#include <random>
#include <sstream>

namespace shedlock::internal {

using namespace std::chrono_literals;

namespace {

// The server refuses longer arrays.
constexpr std::size_t most_names = 1000;
// Only after that does the server notice that the client has gone, and VACUUM is held back for that long.
constexpr clock::duration longest_slice = 5s;
// After that a caller asks in any case: after a fail-over, the connection that waits may lead to an isolated server, on
// which the lock never becomes free.
constexpr clock::duration longest_wait = 10s;
// How long the callers poll after a wait that could not be used, or that failed. While one after another fails, it is
// twice as long each time, and the pauses of a caller grow, too. Otherwise the connections that many clients open, and
// their requests, could keep a server so busy that no wait succeeds.
constexpr clock::duration polling_time = 1s;
constexpr clock::duration longest_polling_time = 30s;
constexpr clock::duration longest_pause = 1s;
// A wait on the server that ends sooner is short. A caller whose waits are short and in vain pauses before the next,
// for this long at most. A short slice that found nothing, and that no caller ended, makes all callers poll.
constexpr clock::duration short_wait = 50ms;
// A caller that was told that its locks may be free, and has not asked by then, no longer keeps the others waiting.
constexpr clock::duration longest_turn = 1s;

std::string random_wait_id()
{
    std::random_device random;
    return std::to_string(static_cast<std::int64_t>(std::uint64_t{random()} << 32 | random()));
}

} // namespace

waiting::waiting(session::source source, session &shared)
    : shared_{shared}, session_{std::move(source), shared.patience()},
      grace_{std::min<clock::duration>(shared.patience(), 1s)}, wait_id_{random_wait_id()}, polling_time_{polling_time}
{
}

waiting::~waiting() = default;

waiting::caller::caller(waiting &owner, const names &names) : owner_{owner}, names_{names}, pauses_{longest_pause}
{
}

waiting::caller::~caller()
{
    owner_.leave(*this);
}

void waiting::caller::wait(clock::time_point until, const std::stop_token &stop)
{
    owner_.leave(*this);
    if (in_vain_ > 2) { // others are faster, or what looks free is not
        const auto pause = std::min(short_wait, clock::duration{1ms} * (1 << (in_vain_ - 3)));
        sleep_until(std::min(until, later(clock::now(), pause)), stop);
    }
    const auto began = clock::now();
    until_ = std::min(until, later(began, longest_wait));
    try {
        owner_.wait(*this, stop);
    } catch (const std::exception &) { // no thread, no memory, no answer
        owner_.leave(*this);
        state_ = must_poll;
    }
    const bool is_short = state_ == may_ask && clock::now() - began < short_wait;
    in_vain_ = is_short ? std::min(in_vain_ + 1, 9) : 0;
    if (state_ == must_poll)
        pauses_.rest(until, stop);
}

void waiting::wait(caller &one, const std::stop_token &stop)
{
    const std::stop_callback when_stopped{stop, [&] {
                                              const std::lock_guard hold{mutex_};
                                              one.changed_.notify_all();
                                          }};
    std::unique_lock hold{mutex_};
    one.state_ = caller::must_poll;
    if (polling_time_ == polling_time)
        one.pauses_.reset();
    if (clock::now() < poll_until_ || !shared_.is_direct() || !has_room_for(one.names_))
        return;
    if (!thread_.joinable())
        thread_ = quietly([this] { return std::jthread{[this](const std::stop_token &end) { work(end); }}; });
    if (one.number_ == 0)
        one.number_ = ++last_number_;
    add(one);
    one.state_ = caller::waits;
    changed_.notify_all();
    while (one.state_ == caller::waits && clock::now() < one.until_ && !stop.stop_requested())
        if (!ends_it_ && is_missing_from_slice(one))
            end_slice_for(one, hold);
        else
            one.changed_.wait_for(hold, limited_wait(one.until_));
    const bool gives_up = one.state_ == caller::waits;
    hold.unlock();
    if (gives_up)
        leave(one);
}

// Wakes the caller that this one blocked, or for which it would have ended the slice.
void waiting::leave(caller &one) noexcept
{
    if (one.number_ == 0)
        return;
    const std::lock_guard hold{mutex_};
    one.state_ = caller::idle;
    remove(one);
    for (const auto &name : one.names_.list())
        if (const auto found = turns_.find(name); found != turns_.end() && found->second.whose == &one)
            turns_.erase(found);
    if (ends_it_ == &one)
        ends_it_ = nullptr;
    changed_.notify_all();
    const auto next =
        std::ranges::find_if(callers_, [this](const auto &other) { return is_missing_from_slice(*other.second); });
    if (next != callers_.end())
        next->second->changed_.notify_all();
}

// To the server, callers that wait for the same names are one: it gets the names, and the first of the callers is told
// when they may be free.
bool waiting::has_room_for(const names &what) const
{
    return lists_.contains(what.list()) || names_count_ + what.list().size() <= most_names;
}

void waiting::add(caller &one)
{
    const auto list = lists_.try_emplace(one.names_.list(), 0).first;
    try {
        callers_.emplace(one.number_, &one);
    } catch (...) {
        if (list->second == 0)
            lists_.erase(list);
        throw;
    }
    if (list->second++ == 0)
        names_count_ += list->first.size();
}

void waiting::remove(const caller &one) noexcept
{
    if (callers_.erase(one.number_) == 0)
        return;
    const auto list = lists_.find(one.names_.list());
    if (--list->second > 0)
        return;
    names_count_ -= list->first.size();
    lists_.erase(list);
}

bool waiting::may_be_told(const caller &one) const
{
    return std::ranges::none_of(one.names_.list(), [this](const std::string &name) {
        const auto found = turns_.find(name);
        return found != turns_.end() && clock::now() < found->second.end;
    });
}

// Whether a slice is running without the caller's names, although the caller may be told about them.
bool waiting::is_missing_from_slice(const caller &one) const
{
    return !running_.empty() && !running_.contains(one.names_.list()) && may_be_told(one);
}

// A caller that comes meanwhile is in the next slice as well. The request has the session's timeout, not the caller's:
// cutting the connection would hurt other callers.
void waiting::end_slice_for(caller &one, std::unique_lock<std::mutex> &hold)
{
    ends_it_ = &one;
    hold.unlock();
    const auto answer = shared_.ask("SELECT @extschema@.shedlock_end_wait($1::pg_catalog.int8)", {wait_id_});
    hold.lock();
    if (ends_it_ != &one || answer.rows.at(0)[0] == "t")
        return;
    one.changed_.wait_for(hold, std::clamp<clock::duration>(clock::now() - began_, 1ms,
                                                            short_wait)); // the server's wait may not have begun yet
    if (ends_it_ == &one)
        ends_it_ = nullptr;
}

void waiting::work(const std::stop_token &end)
{
    on_library_thread = true;
    while (!end.stop_requested())
        try {
            if (wait_for_callers(end))
                run_slice(end);
        } catch (const std::exception &) { // the session was ended, may not call the function, or does not answer
            send_away(has_failed);
        }
}

bool waiting::wait_for_callers(const std::stop_token &end)
{
    std::unique_lock hold{mutex_};
    const bool are_there = changed_.wait_for(hold, end, limited_wait(clock::time_point::max()), [this] {
        return std::ranges::any_of(callers_, [this](const auto &one) { return may_be_told(*one.second); });
    });
    if (callers_.empty() && clock::now() >= later(poll_until_, 2 * longest_pause)) // otherwise they may come back
        session_.close();
    return are_there;
}

void waiting::run_slice(const std::stop_token &end)
{
    if (!session_.try_to_open(later(clock::now(), grace_), end))
        return send_away(has_failed);
    if (!session_.is_direct())
        return send_away(cannot_wait);
    const auto mine = begin_slice();
    if (mine.lists.empty())
        return;
    const auto answer =
        session_.ask("SELECT pg_catalog.array_to_string(@extschema@.shedlock_wait_any($1::pg_catalog.text[],"
                     " $2::pg_catalog.int4[], $3::pg_catalog.interval, $4::pg_catalog.int8), ' ')",
                     {array_literal(mine.names), array_literal(mine.which), interval_literal(mine.wait), wait_id_},
                     later(clock::now(), mine.wait + grace_), end);
    const auto &free = answer.rows.at(0)[0];
    if (!free)
        send_away(cannot_wait);
    else if (!finish_slice(mine, clock::now() - answer.sent, *free))
        send_away(has_failed);
}

// What the callers wait for, except those with a name that another caller has just been told about. Empty if no caller
// is left.
waiting::slice waiting::begin_slice()
{
    const std::lock_guard hold{mutex_};
    slice mine;
    began_ = clock::now();
    for (const auto &[number, one] : callers_) {
        if (!may_be_told(*one))
            continue;
        mine.wait = std::clamp(one->until_ - began_, mine.wait, longest_slice);
        if (!running_.insert(one->names_.list()).second)
            continue;
        mine.lists.push_back(one->names_.list());
        for (const auto &name : one->names_.list()) {
            mine.names.push_back(name);
            mine.which.push_back(std::to_string(mine.lists.size()));
        }
    }
    ends_it_ = nullptr;
    return mine;
}

// Returns false if the slice took too long (busy server, or a pooler in between), or was too short although no caller
// ended it.
bool waiting::finish_slice(const slice &mine, clock::duration took, const std::string &free)
{
    const std::lock_guard hold{mutex_};
    const bool is_too_short = free.empty() && !ends_it_ && took < std::min(mine.wait, short_wait);
    if (took > mine.wait + grace_ / 2 || is_too_short)
        return false;
    polling_time_ = polling_time;
    running_.clear();
    tell(mine, free);
    return true;
}

// Tells the first of the callers that wait for these names, because the others would be refused. If it does not take
// the lock, they are told in the next slice.
void waiting::tell(const slice &mine, const std::string &free)
{
    std::istringstream numbers{free};
    for (std::size_t number = 0; numbers >> number;) {
        const auto &list = mine.lists.at(number - 1);
        const auto found =
            std::ranges::find_if(callers_, [&](const auto &one) { return one.second->names_.list() == list; });
        if (found == callers_.end() || !may_be_told(*found->second))
            continue;
        auto &one = *found->second;
        for (const auto &name : list)
            turns_.insert_or_assign(name, turn{&one, later(clock::now(), longest_turn)});
        one.state_ = caller::may_ask;
        one.changed_.notify_all();
        remove(one);
    }
}

// Makes all callers poll as if the server had no wait.
void waiting::send_away(reason why) noexcept
{
    const std::lock_guard hold{mutex_};
    for (const auto &[number, one] : callers_) {
        one->state_ = caller::must_poll;
        one->changed_.notify_all();
    }
    callers_.clear();
    lists_.clear();
    names_count_ = 0;
    running_.clear();
    if (why == cannot_wait)
        polling_time_ = polling_time;
    poll_until_ = later(clock::now(), polling_time_);
    if (why == has_failed)
        polling_time_ = std::min(2 * polling_time_, longest_polling_time);
}

} // namespace shedlock::internal
