#include "keeper.hpp"

#include "thread.hpp"

#include <algorithm>

namespace shedlock::internal {

using namespace std::chrono_literals;

namespace {

// Shorter than deadlock_timeout is by default: in a circle with somebody's guards it is we who give up.
constexpr clock::duration longest_lock_wait = 500ms;

} // namespace

keeper::keeper(session::source source, std::chrono::milliseconds patience, teller const &tell)
    : patience_{patience}, tell_{tell}, session_{std::move(source), patience}
{
}

keeper::~keeper() = default;

void keeper::keep(std::shared_ptr<lease> what)
{
    auto one = std::make_shared<kept>(kept{std::move(what)});
    std::lock_guard const hold{mutex_};
    if (!thread_.joinable())
        thread_ = quietly([this] { return std::jthread{[this](std::stop_token const &end) { work(end); }}; });
    kept_.push_back(std::move(one));
    is_to_look_ = true;
    changed_.notify_all();
}

void keeper::look_again() noexcept
{
    std::lock_guard const hold{mutex_};
    is_to_look_ = true;
    changed_.notify_all();
}

// Whatever goes wrong on the way, memory that runs out included, is tried again.
void keeper::work(std::stop_token const &end)
{
    this_is_ours = true;
    session_.try_to_open(later(clock::now(), 2 * lock_wait(1)), end); // now, while there are connections to be had
    while (!end.stop_requested())
        try {
            if (auto const due = wait_for_due(end); !due.empty())
                extend(due, end);
        } catch (std::exception const &) {
            sleep_until(later(clock::now(), 10ms), end);
        }
}

std::vector<keeper::extending> keeper::wait_for_due(std::stop_token const &end)
{
    std::unique_lock hold{mutex_};
    while (!end.stop_requested()) {
        is_to_look_ = false;
        std::erase_if(kept_, [](auto const &one) { return one->what->is_over(); });
        if (auto const lost = take_lost()) {
            if (lost->what->is_completing())
                continue;
            hold.unlock(); // whoever is told may call us
            tell_(event::kind::lost, lost->what->names, [&] {
                return lost->what->names.to_text() + " could not be extended in time: the work under it must stop";
            });
            hold.lock();
            continue;
        }
        auto next = clock::time_point::max();
        if (auto due = due_now(next); !due.empty())
            return due;
        bool const is_idle = !changed_.wait_for(hold, end, nap(next), [this] { return is_to_look_; }) && kept_.empty();
        if (is_idle)
            session_.close();
    }
    return {};
}

std::shared_ptr<keeper::kept> keeper::take_lost()
{
    auto const now = clock::now();
    auto const lost = std::ranges::find_if(kept_, [&](auto const &one) {
        return now >= one->what->deadline() && !one->what->is_over(); // known to be lost since we looked
    });
    if (lost == kept_.end())
        return nullptr;
    auto one = *lost;
    kept_.erase(lost);
    one->what->is_told_lost = true;
    return one;
}

// Those that may be extended together first, and whoever has waited longest first.
void keeper::sort()
{
    for (auto const &one : kept_)
        one->due = std::max(one->what->next().due, one->not_before);
    std::ranges::sort(kept_, {}, [](auto const &one) {
        return std::pair{most_at_once - one->most_together, one->due};
    });
}

// All that are due, and with them those that soon will be, of the largest groups that there are.
std::vector<keeper::extending> keeper::due_now(clock::time_point &next)
{
    sort();
    std::vector<extending> due;
    auto const now = clock::now();
    for (auto const &one : kept_) {
        if (!due.empty() && (due.size() == one->most_together || one->most_together < due.front().one->most_together))
            break;
        auto const early = due.empty() ? clock::duration{} : one->what->next().certain / 30;
        std::unique_lock mine{one->what->extending, std::defer_lock};
        if (one->due > now + early)
            next = std::min(next, one->due);
        else if (!mine.try_lock()) // the application extends it, and tells us then
            next = std::min(next, now + 100ms);
        else
            due.push_back({one, std::move(mine), one->what->next().at_most});
    }
    return due;
}

// Several tries fit into what is left of a lease.
clock::duration keeper::patience_for(lease const &lease) const
{
    return std::min<clock::duration>(patience_, lease.next().certain / 6);
}

// No wait for a lock, nor one after the other for all who are alone, lets another lease come too late. Who is not alone
// hardly waits: it takes many tries to find out who among many is stuck.
clock::duration keeper::lock_wait(std::size_t count)
{
    std::lock_guard const hold{mutex_};
    auto shortest = longest_lock_wait;
    for (auto const &one : kept_)
        shortest = std::min(shortest, patience_for(*one->what) / 2);
    auto const alone = std::ranges::count_if(kept_, [](auto const &one) { return one->most_together == 1; });
    return std::max<clock::duration>(shortest / (count > 1 ? 200 : std::max<std::ptrdiff_t>(alone, 1)), 1ms);
}

void keeper::extend(std::vector<extending> const &due, std::stop_token const &end)
try {
    std::vector<extension> asked;
    clock::duration patience = patience_;
    for (auto const &each : due) {
        auto &lease = *each.one->what;
        asked.push_back({lease.names, lease.token, each.at_most});
        patience = std::min(patience, patience_for(lease));
        lease.begin_extend(each.at_most);
    }
    auto const answer = extend_all(session_, asked, lock_wait(due.size()), later(clock::now(), patience), end);
    auto const together = due.front().one->most_together;
    for (std::size_t i = 0; i < due.size(); ++i)
        settle(due[i], answer.sent, answer.refused[i]);
    if (together < most_at_once && ++halves_ > 1)
        regroup(together);
} catch (std::exception const &failure) {
    halves_ = 0;
    // For everybody alike, or because of one of these.
    bool const is_broken =
        dynamic_cast<connection_error const *>(&failure) && !dynamic_cast<unanswered const *>(&failure);
    for (auto const &each : due) {
        each.one->what->doubt_extend(each.at_most);
        if (!is_broken)
            each.one->most_together = std::max<std::size_t>(due.size() / 2, 1);
        if (is_broken || due.size() == 1)
            failed(*each.one, failure);
    }
    if (is_broken)
        pause_all();
}

void keeper::settle(extending const &each, clock::time_point sent, std::optional<notice> const &refused)
{
    auto &one = *each.one;
    auto &lease = *one.what;
    if (refused) {
        bool const is_news = !lease.is_over();
        if (lease.lose(refused->sqlstate) && is_news)
            tell_(event::kind::lost, lease.names, [&] { return refused->text; });
        return;
    }
    lease.end_extend(each.at_most, sent);
    tell_(activity_of(activity::kind::extended, lease, sent));
    one.most_together = most_at_once;
    one.not_before = clock::time_point::min();
    if (std::exchange(one.is_in_trouble, false))
        tell_(event::kind::extend_recovered, lease.names, [&] { return lease.names.to_text() + " is extended again"; });
}

// Two halves in a row got through: what was in the way of them all may be gone, a lock of the whole table.
void keeper::regroup(std::size_t together)
{
    std::lock_guard const hold{mutex_};
    for (auto const &one : kept_)
        if (one->most_together == together)
            one->most_together = std::min(2 * together, most_at_once);
}

// Several tries fit into what is left of a lease.
void keeper::pause(kept &one)
{
    auto const now = clock::now();
    auto const left = std::max(one.what->deadline(), now) - now;
    one.not_before = now + std::clamp<clock::duration>(left / 10, 10ms, 1s);
}

// There is no server for anybody.
void keeper::pause_all()
{
    std::lock_guard const hold{mutex_};
    for (auto const &one : kept_)
        pause(*one);
}

void keeper::failed(kept &one, std::exception const &why)
{
    auto const &lease = *one.what;
    pause(one);
    // The application's own transaction may have the row locked, until it has committed.
    if (!lease.is_over() && !lease.is_completing() && !std::exchange(one.is_in_trouble, true))
        tell_(event::kind::extend_failing, lease.names,
              [&] { return lease.names.to_text() + " could not be extended yet: " + why.what(); });
}

} // namespace shedlock::internal
