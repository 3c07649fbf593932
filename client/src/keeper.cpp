#include "keeper.hpp"

#include "exit.hpp"
#include "thread.hpp"

#include <algorithm>

namespace shedlock::internal {

using namespace std::chrono_literals;

namespace {

// How long to wait for a lock of the whole table. It is shorter than the default of deadlock_timeout, so that in a
// deadlock it is usually our statement that gives up.
constexpr clock::duration longest_lock_wait = 500ms;

// If an extend is due sooner than this, the connection is opened at once: opening it only when the extend is due would
// be too late.
constexpr clock::duration soon = 1s;

// If the server grants no second connection, how long to use the shared one before asking again.
constexpr clock::duration rest_on_shared = 10s;

// Whether the cause is the server or the table, so that it affects all locks. Otherwise the cause may be a single lock.
bool is_for_all(const std::exception &failure)
{
    return dynamic_cast<const connection_error *>(&failure);
}

} // namespace

keeper::keeper(session::source source, session &shared, const reporter &report)
    : patience_{shared.patience()}, report_{report}, shared_{shared}, own_{std::move(source), patience_}
{
}

keeper::~keeper() = default;

void keeper::keep(std::shared_ptr<lease> what)
{
    const bool is_soon = what->next().due < later(clock::now(), soon);
    auto one = std::make_shared<kept>(kept{std::move(what)});
    const std::lock_guard hold{mutex_};
    if (!thread_.joinable())
        thread_ = quietly([this] { return std::jthread{[this](const std::stop_token &end) { work(end); }}; });
    kept_.push_back(std::move(one));
    is_to_connect_ = is_to_connect_ || is_soon;
    is_to_look_ = true;
    changed_.notify_all();
}

void keeper::look_again() noexcept
{
    const std::lock_guard hold{mutex_};
    is_to_look_ = true;
    changed_.notify_all();
}

// After any failure, even running out of memory, it tries again.
void keeper::work(const std::stop_token &end)
{
    on_library_thread = true;
    while (!end.stop_requested())
        try {
            connect(end);
            if (const auto due = wait_for_due(end); !due.empty())
                extend(due, end);
        } catch (const std::exception &) {
            sleep_until(later(clock::now(), 10ms), end);
        }
}

void keeper::connect(const std::stop_token &end)
{
    std::unique_lock hold{mutex_};
    if (!std::exchange(is_to_connect_, false))
        return;
    hold.unlock();
    choose(later(clock::now(), 2 * lock_wait()), end);
}

// Returns an empty list if there is something else to do first.
std::vector<keeper::extending> keeper::wait_for_due(const std::stop_token &end)
{
    std::unique_lock hold{mutex_};
    while (!end.stop_requested() && !is_to_connect_) {
        is_to_look_ = false;
        std::erase_if(kept_, [](const auto &one) { return one->what->is_over(); });
        if (is_outage_ && std::ranges::none_of(kept_, &kept::is_out))
            is_outage_ = is_recovering_ = false;
        if (const auto lost = take_lost()) {
            hold.unlock(); // the handler may call us
            report_lost(*lost->what);
            hold.lock();
            continue;
        }
        auto next = clock::time_point::max();
        auto due = due_now(next);
        // The outage is over: a lease has been extended since, and of the locks for which it was reported, only stuck
        // or suspect ones are still due.
        if (is_recovering_ && (due.empty() || due.front().one->is_last()) && !is_any_overdue()) {
            due.clear();
            hold.unlock();
            end_outage();
            hold.lock();
            continue;
        }
        if (!due.empty())
            return due;
        const bool is_idle =
            !changed_.wait_for(hold, end, limited_wait(next), [this] { return is_to_look_; }) && kept_.empty();
        if (is_idle)
            own_.close();
    }
    return {};
}

std::shared_ptr<keeper::kept> keeper::take_lost()
{
    const auto now = clock::now();
    const auto lost = std::ranges::find_if(
        kept_, [&](const auto &one) { return now >= one->what->deadline() && one->what->note_deadline_passed(); });
    if (lost == kept_.end())
        return nullptr;
    auto one = *lost;
    kept_.erase(lost);
    return one;
}

// Whether an extend of one of the locks for which the outage was reported is overdue, so that the outage is not over
// yet.
bool keeper::is_any_overdue() const
{
    const auto now = clock::now();
    return std::ranges::any_of(kept_, [&](const auto &one) {
        return one->is_out && !one->is_last() && !one->what->is_over() && one->what->next().due <= now;
    });
}

void keeper::report_lost(const lease &lost) const
{
    if (!lost.is_completing())
        report_(event::kind::lost, lost.names,
                [&] { return lost.names.to_text() + " could not be extended in time: the work under it must stop"; });
}

// The leases that are due and, with them, those that soon will be. Stuck and suspect locks come last; a suspect one,
// which may make the statement fail for the others, is extended alone. Lowers `next` to the time of the next look.
std::vector<keeper::extending> keeper::due_now(clock::time_point &next)
{
    for (const auto &one : kept_)
        one->due = std::max(one->what->next().due, one->not_before);
    std::ranges::sort(kept_, {}, [](const auto &one) { return std::pair{one->is_last(), one->due}; });
    std::vector<extending> due;
    const auto now = clock::now();
    for (const auto &one : kept_) {
        if (!due.empty() && (due.size() == most_at_once || one->is_suspect || due.front().one->is_suspect))
            break;
        const auto plan = one->what->next();
        const auto early = due.empty() ? clock::duration{} : plan.certain / 30;
        std::unique_lock mine{one->what->extending, std::defer_lock};
        if (plan.due > now + early || one->not_before > now)
            next = std::min(next, one->due);
        else if (!mine.try_lock()) // the application is extending it, and will call look_again()
            next = std::min(next, now + 100ms);
        else if (!one->what->is_over()) // detach() may have ended it, and has waited for the mutex
            due.push_back({one, std::move(mine), one->what->next().at_most}); // an extend may have changed it since
    }
    return due;
}

// So short that several tries fit into what is left of a lease.
clock::duration keeper::patience_for(const lease &lease) const
{
    return std::min<clock::duration>(patience_, lease.next().certain / 6);
}

// So short that no lease ends while we wait for the table.
clock::duration keeper::lock_wait()
{
    const std::lock_guard hold{mutex_};
    auto shortest = longest_lock_wait;
    for (const auto &one : kept_)
        shortest = std::min(shortest, patience_for(*one->what) / 2);
    return std::max<clock::duration>(shortest, 1ms);
}

// Our own connection if the server grants it, otherwise the shared one. After a refusal our own is not tried again
// until own_again_, unless the shared one is occupied, which may last long.
session &keeper::choose(clock::time_point until, const std::stop_token &end)
{
    if (shared_.is_pinned()) // idle, it would be dropped by a firewall
        return shared_;
    const bool is_to_try = clock::now() >= own_again_ || shared_.is_occupied();
    if (!is_to_try || !own_.try_to_open(until, end))
        return shared_;
    own_again_ = clock::time_point::min();
    return own_;
}

void keeper::extend(const std::vector<extending> &due, const std::stop_token &end)
try {
    std::vector<extension> asked;
    clock::duration patience = patience_;
    auto deadline = clock::time_point::max();
    for (const auto &each : due) {
        auto &lease = *each.one->what;
        asked.push_back({lease.names, lease.token, each.at_most});
        patience = std::min(patience, patience_for(lease));
        deadline = std::min(deadline, lease.deadline());
        lease.begin_extend(each.at_most);
    }
    const auto now = clock::now();
    auto &by = choose(later(now, patience / 2), end);
    // An answer that is given up ends the session; if the locks end with it, there is no other try.
    const auto answer = extend_all(by, asked, lock_wait(), by.is_pinned() ? deadline : later(now, patience), end);
    if (&by == &shared_ && now >= own_again_) // there is a server, but it has no other connection for us
        own_again_ = later(now, rest_on_shared);
    for (std::size_t i = 0; i < due.size(); ++i)
        settle(due[i], answer.sent, answer.each[i]);
} catch (const std::exception &failure) {
    failed(due, failure);
}

void keeper::settle(const extending &each, clock::time_point sent, const extended &how)
{
    auto &one = *each.one;
    auto &lease = *one.what;
    if (how.is_busy)
        return report_stuck(one, row_is_busy);
    if (how.refused) {
        if (lease.lose(how.refused->sqlstate))
            report_(event::kind::lost, lease.names, [&] { return how.refused->text; });
        return;
    }
    lease.confirm_extend(each.at_most, sent);
    report_(activity_of(activity::kind::extended, lease, sent));
    one.not_before = clock::time_point::min();
    one.is_suspect = false;
    const bool was_stuck = std::exchange(one.is_stuck, false);
    if (clock::now() >= lease.deadline()) // too late
        return;
    is_recovering_ = is_recovering_ || (is_outage_ && one.is_out);
    if (was_stuck)
        report_(event::kind::extend_recovered, lease.names,
                [&] { return lease.names.to_text() + " is extended again"; });
}

void keeper::failed(const std::vector<extending> &due, const std::exception &why)
{
    const bool for_all = is_for_all(why);
    auto &first = *due.front().one;
    const bool is_its_own_fault = !for_all && first.is_suspect; // it was the only one in the statement
    for (const auto &each : due) {
        each.one->what->doubt_extend(each.at_most);
        each.one->is_suspect = each.one->is_suspect || !for_all;
    }
    if (is_exiting()) // no event: what its handler uses may be gone
        return pause_all();
    if (for_all)
        pause_all();
    else if (due.size() == 1)
        pause(first);
    if (!is_its_own_fault)
        begin_outage(why);
    else if (!is_outage_)
        report_stuck(first, why.what());
}

// So briefly that several tries fit into what is left of a lease.
void keeper::pause(kept &one)
{
    const auto now = clock::now();
    const auto left = std::max(one.what->deadline(), now) - now;
    one.not_before = now + std::clamp<clock::duration>(left / 10, 10ms, 1s);
}

// For a failure that concerns all locks.
void keeper::pause_all()
{
    const std::lock_guard hold{mutex_};
    for (const auto &one : kept_)
        pause(*one);
}

void keeper::report_stuck(kept &one, std::string_view why)
{
    const auto &lease = *one.what;
    pause(one);
    // During a completion it is the application's own transaction that has locked the row, which is no trouble.
    if (!lease.is_over() && !lease.is_completing() && !std::exchange(one.is_stuck, true))
        report_(event::kind::extend_failing, lease.names,
                [&] { return lease.names.to_text() + " could not be extended yet: " + std::string{why}; });
}

// Reports one event for all locks, except those that are stuck, over or being completed. During an outage it only notes
// that the outage goes on.
void keeper::begin_outage(const std::exception &why)
{
    is_recovering_ = false;
    if (is_outage_)
        return;
    {
        const std::lock_guard hold{mutex_};
        for (const auto &one : kept_)
            one->is_out = !one->is_stuck && !one->what->is_over() && !one->what->is_completing();
    }
    is_outage_ = true;
    report_all(event::kind::extend_failing,
               [&](const std::string &subject) { return subject + " could not be extended yet: " + why.what(); });
}

void keeper::end_outage()
{
    is_outage_ = is_recovering_ = false;
    report_all(event::kind::extend_recovered,
               [](const std::string &subject) { return subject + " can be extended again"; });
}

template <std::invocable<const std::string &> Words> void keeper::report_all(event::kind what, const Words &words)
{
    std::unique_lock hold{mutex_};
    const auto is_meant = [now = clock::now()](const auto &one) {
        return one->is_out && !one->what->is_over() && now < one->what->deadline();
    };
    const auto count = std::ranges::count_if(kept_, is_meant);
    if (count == 0)
        return;
    const auto first = (*std::ranges::find_if(kept_, is_meant))->what;
    hold.unlock(); // the handler may call us
    if (count == 1)
        report_(what, first->names, [&] { return words(first->names.to_text()); });
    else
        report_(what, names{std::vector<std::string>{}}, [&] { return words(std::to_string(count) + " locks"); });
}

} // namespace shedlock::internal
